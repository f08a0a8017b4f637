package main

import (
	"image/color"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// draw plots the share of switches done within a time, a line per run.
func draw(path string, followed, polled []time.Duration) error {
	p := plot.New()
	p.Title.Text = "IS-05 activation to the first readable grain"
	p.X.Label.Text = "ms"
	p.Y.Label.Text = "share of switches"
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, 1
	p.Legend.Left, p.Legend.Top = true, true
	p.Add(plotter.NewGrid())
	for _, run := range []struct {
		name  string
		times []time.Duration
		color color.Color
	}{
		{"subscriptions", followed, color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}},
		{"polling only", polled, color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}},
	} {
		points := make(plotter.XYs, len(run.times))
		for i, t := range run.times {
			points[i] = plotter.XY{X: ms(t), Y: float64(i+1) / float64(len(run.times))}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		line.StepStyle = plotter.PostStep
		line.Color = run.color
		p.Add(line)
		p.Legend.Add(run.name, line)
	}
	return p.Save(16*vg.Centimeter, 10*vg.Centimeter, path)
}

package main

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// drawRecoveries plots every recovery time, a row per scenario, with its limit.
func drawRecoveries(path string, all []*result) error {
	p := plot.New()
	p.Title.Text = "From the end of a fault to verified grains on every touched path"
	p.X.Label.Text = "ms"
	p.X.Min = 0
	p.Add(plotter.NewGrid())
	var times, limits plotter.XYs
	var names []string
	for i := len(all) - 1; i >= 0; i-- {
		r := all[i]
		if len(r.Recovery) == 0 {
			continue
		}
		y := float64(len(names))
		names = append(names, r.Scenario)
		for _, t := range r.Recovery {
			times = append(times, plotter.XY{X: ms(t), Y: y})
		}
		if r.Limit > 0 {
			limits = append(limits, plotter.XY{X: ms(r.Limit), Y: y})
		}
	}
	if len(names) == 0 {
		return nil
	}
	for _, layer := range []struct {
		name   string
		points plotter.XYs
		color  color.Color
		shape  draw.GlyphDrawer
	}{
		{"a repetition", times, color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}, draw.CircleGlyph{}},
		{"limit", limits, color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}, draw.CrossGlyph{}},
	} {
		if len(layer.points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(layer.points)
		if err != nil {
			return err
		}
		dots.GlyphStyle = draw.GlyphStyle{Color: layer.color, Radius: vg.Points(2.5), Shape: layer.shape}
		p.Add(dots)
		p.Legend.Add(layer.name, dots)
	}
	p.Legend.Top = true
	p.NominalY(names...)
	return p.Save(20*vg.Centimeter, vg.Length(4+len(names))*0.6*vg.Centimeter, path)
}

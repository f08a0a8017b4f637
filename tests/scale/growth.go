package main

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// point is a cost at a size of the plant.
type point struct{ flows, cost float64 }

// exponent is the slope of a straight line through the logarithms, from the second
// size on: at the smallest one the constant part of a cost is most of it. What is
// too small to be measured grows with 0.
func exponent(curve []point) float64 {
	var n, x, y, xx, xy float64
	for i, p := range curve {
		if (i > 0 || len(curve) < 3) && p.cost > 0 {
			a, b := math.Log(p.flows), math.Log(p.cost)
			n, x, y, xx, xy = n+1, x+a, y+b, xx+a*a, xy+a*b
		}
	}
	if n < 2 {
		return 0
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// draw plots the costs over the number of flows, both in logarithms: a straight line
// of the slope 1 is linear growth.
func draw(path string, curves map[string][]point) error {
	p := plot.New()
	p.Title.Text = "cost of the control plane as the plant grows"
	p.X.Label.Text, p.Y.Label.Text = "flows, remote and local", "ms of processor time, or as named"
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left = true, true
	p.Add(plotter.NewGrid())
	colors := []color.Color{
		color.RGBA{R: 0x1f, G: 0x77, B: 0xb4, A: 0xff}, color.RGBA{R: 0xd6, G: 0x27, B: 0x28, A: 0xff}, color.RGBA{R: 0x2c, G: 0xa0, B: 0x2c, A: 0xff},
		color.RGBA{R: 0x94, G: 0x67, B: 0xbd, A: 0xff}, color.RGBA{R: 0x8c, G: 0x56, B: 0x4b, A: 0xff}, color.RGBA{R: 0xe3, G: 0x77, B: 0xc2, A: 0xff},
		color.RGBA{R: 0x7f, G: 0x7f, B: 0x7f, A: 0xff}, color.RGBA{R: 0xbc, G: 0xbd, B: 0x22, A: 0xff},
	}
	for i, name := range growing {
		var points plotter.XYs
		for _, c := range curves[name] {
			if c.cost > 0 {
				points = append(points, plotter.XY{X: c.flows, Y: c.cost})
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, dots.Color = colors[i%len(colors)], colors[i%len(colors)]
		p.Add(line, dots)
		p.Legend.Add(name, line)
	}
	return p.Save(18*vg.Centimeter, 14*vg.Centimeter, path)
}

package main

import (
	"errors"
	"image/color"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
)

// drawAll plots every figure of every agent over time, the warm-up left of zero.
func drawAll(path string, hosts []*plant.Host, w *watch) (err error) {
	colors := []color.Color{color.RGBA{0x1f, 0x77, 0xb4, 0xff}, color.RGBA{0xd6, 0x27, 0x28, 0xff}, color.RGBA{0x2c, 0xa0, 0x2c, 0xff}}
	var panels [][]*plot.Plot
	lines := figure{name: "lines of log", value: func(l look) float64 { return l.lines + l.stalls }}
	for _, f := range append(figures[:], lines) {
		p := plot.New()
		p.Y.Label.Text, p.X.Label.Text = f.name, "minutes since the warm-up"
		scale := 1.0
		if f.unit == "KiB" {
			p.Y.Label.Text, scale = f.name+", MiB", 1024
		}
		p.Y.Min = 0
		p.Add(plotter.NewGrid())
		for i, h := range hosts {
			var points plotter.XYs
			for _, at := range pointsOf(f, w.history[h]) {
				points = append(points, plotter.XY{X: (at.at - w.settled).Minutes(), Y: at.value / scale})
			}
			line, err := plotter.NewLine(points)
			if err != nil {
				return err
			}
			line.Color = colors[i%len(colors)]
			p.Add(line)
			p.Legend.Add(h.HostID, line)
		}
		panels = append(panels, []*plot.Plot{p})
	}
	image := vgsvg.New(20*vg.Centimeter, vg.Length(len(panels))*6*vg.Centimeter)
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadX: vg.Millimeter * 4, PadY: vg.Millimeter * 4, PadTop: vg.Millimeter * 3,
		PadBottom: vg.Millimeter * 3, PadLeft: vg.Millimeter * 3, PadRight: vg.Millimeter * 6}
	for row, canvases := range plot.Align(panels, tiles, draw.New(image)) {
		panels[row][0].Draw(canvases[0])
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = image.WriteTo(f)
	return errors.Join(err, f.Close())
}

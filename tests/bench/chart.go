package main

import (
	"errors"
	"image/color"
	"math"
	"os"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// drawLatencies draws the latency distributions of all rounds, video above audio:
// the share of messages that had arrived after a time.
func drawLatencies(s *series, path string) error {
	titles := map[media]string{
		video: "1080p50 v210, paced: from ready to arrived",
		audio: "16-channel 48 kHz audio, commits of 1 ms, paced: from ready to arrived",
	}
	names := map[way]string{tcpWay: "plain TCP", freeWay: "raw libfabric, every commit by itself", rawWay: "raw libfabric", lanesWay: "lanes"}
	colours := map[way]color.Color{
		tcpWay:   color.RGBA{0x88, 0x88, 0x88, 0xff},
		freeWay:  color.RGBA{0xe0, 0x9f, 0x3e, 0xff},
		rawWay:   color.RGBA{0x1f, 0x6f, 0xb2, 0xff},
		lanesWay: color.RGBA{0xc0, 0x39, 0x2b, 0xff},
	}
	var panels [][]*plot.Plot
	for _, m := range []media{video, audio} {
		p := plot.New()
		p.Title.Text = titles[m]
		p.X.Label.Text = "milliseconds"
		p.Y.Label.Text = "share of messages"
		p.X.Scale = plot.LogScale{}
		p.X.Tick.Marker = plot.TickerFunc(decadeTicks)
		p.Y.Min, p.Y.Max = 0, 1
		p.Add(plotter.NewGrid())
		drawn := false
		for _, w := range ways {
			h := s.pooled(m, w)
			if h == nil {
				continue
			}
			line, err := plotter.NewLine(distribution(h))
			if err != nil {
				return err
			}
			line.Color, line.Width = colours[w], vg.Points(1.5)
			name := names[w]
			if m == audio && w == rawWay {
				name += ", at the lanes' cadence"
			}
			p.Add(line)
			p.Legend.Add(name, line)
			drawn = true
		}
		if drawn {
			panels = append(panels, []*plot.Plot{p})
		}
	}
	if len(panels) == 0 {
		return errors.New("no latency was measured")
	}
	return savePanels(panels, path)
}

func savePanels(panels [][]*plot.Plot, path string) error {
	image := vgimg.New(24*vg.Centimeter, vg.Length(len(panels))*11*vg.Centimeter)
	tiles := draw.Tiles{Rows: len(panels), Cols: 1, PadX: vg.Millimeter * 4, PadY: vg.Millimeter * 4,
		PadTop: vg.Millimeter * 3, PadBottom: vg.Millimeter * 3, PadLeft: vg.Millimeter * 3, PadRight: vg.Millimeter * 6}
	for row, canvases := range plot.Align(panels, tiles, draw.New(image)) {
		panels[row][0].Draw(canvases[0])
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = vgimg.PngCanvas{Canvas: image}.WriteTo(f)
	return errors.Join(err, f.Close())
}

// decadeTicks marks 1, 2 and 5 of every decade.
func decadeTicks(least, most float64) (ticks []plot.Tick) {
	for decade := math.Pow(10, math.Floor(math.Log10(least))); decade <= most; decade *= 10 {
		for _, step := range []float64{1, 2, 5} {
			if v := step * decade; v >= least && v <= most {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 3, 64)})
			}
		}
	}
	return ticks
}

// distribution is the cumulative distribution in milliseconds, between the 0.1st
// and the 99.9th percentile.
func distribution(h *hdrhistogram.Histogram) plotter.XYs {
	var xy plotter.XYs
	for permille := 1; permille < 1000; permille++ {
		share := float64(permille) / 1000
		xy = append(xy, plotter.XY{X: max(milliseconds(h, 100*share), 1e-3), Y: share})
	}
	return xy
}

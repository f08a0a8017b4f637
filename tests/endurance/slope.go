package main

import (
	"math"
	"time"
)

// point is one figure at one time.
type point struct {
	at    time.Duration
	value float64
}

// slope is a straight line's through points, per minute, with its standard error.
type slope struct{ PerMinute, Error float64 }

const (
	// blocks is how many means stand for a run: a garbage collector's saw and
	// whatever else repeats within seconds is gone from them.
	blocks = 20
	// sure is how many standard errors a slope is above its limit before it counts: of
	// the thirty that a run of three hosts judges, one would be by chance with less.
	sure = 2.5
	// missed is how many errors further a slope is hardly missed: by one run of 40.
	missed = 2
	// mostCorrelated bounds what is made of neighbours that resemble each other.
	mostCorrelated = 0.8
)

// slopeOf fits the line by least squares through the means of blocks. The error is
// that of independent means, made larger by how far neighbours still resemble each
// other: what wanders slowly tells less than its number of points says.
func slopeOf(points []point) slope {
	means := meansOf(points)
	n := float64(len(means))
	if n < 4 {
		return slope{}
	}
	var mx, my float64
	for _, p := range means {
		mx += p.at.Minutes() / n
		my += p.value / n
	}
	var xx, xy float64
	for _, p := range means {
		xx += (p.at.Minutes() - mx) * (p.at.Minutes() - mx)
		xy += (p.at.Minutes() - mx) * (p.value - my)
	}
	if xx == 0 {
		return slope{}
	}
	s := slope{PerMinute: xy / xx}
	var squares, neighbours, before float64
	for _, p := range means {
		rest := p.value - my - s.PerMinute*(p.at.Minutes()-mx)
		squares += rest * rest
		neighbours += rest * before
		before = rest
	}
	if squares == 0 {
		return s
	}
	// The rests of a fit resemble each other less than the noise does (Kendall).
	like := neighbours / squares
	like = min(max(like+(1+3*like)/n, 0), mostCorrelated)
	s.Error = math.Sqrt(squares / (n - 2) / xx * (1 + like) / (1 - like))
	return s
}

// meansOf are the means of equally many points each.
func meansOf(points []point) (means []point) {
	number := min(blocks, len(points))
	for i := range number {
		block := points[i*len(points)/number : (i+1)*len(points)/number]
		var at time.Duration
		var sum float64
		for _, p := range block {
			at += p.at
			sum += p.value
		}
		means = append(means, point{at / time.Duration(len(block)), sum / float64(len(block))})
	}
	return means
}

// grows says whether a slope is above a limit by more than noise.
func (s slope) grows(limit float64) bool { return s.PerMinute-sure*s.Error > limit }

// least is the slope that a run as noisy as this one would hardly miss: one of 40
// that are as steep passes.
func (s slope) least(limit float64) float64 { return limit + (sure+missed)*s.Error }

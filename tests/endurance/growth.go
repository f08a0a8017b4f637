package main

import "time"

// figure is one thing that may grow.
type figure struct {
	key, name, unit string
	value           func(look) float64
	asked           bool    // value takes look.goes
	limit           float64 // a minute, beyond noise; 0: shown and not judged
}

// The limits are where a leak begins to show in ten minutes, not what is tolerated
// for a day. Resident memory is the sum of anonymous, file and shared pages.
// Anonymous memory is judged without stacks: those of ended goroutines, which the
// runtime keeps, wander for long below a ceiling (see wear), and a goroutine that
// never ends is one more goroutine.
var figures = [...]figure{
	{"rss", "resident memory", "KiB", func(l look) float64 { return l.rss }, false, 0},
	{"anon", "anonymous memory", "KiB", func(l look) float64 { return l.anon }, false, 0},
	{"anon_but_stacks", "anonymous without stacks", "KiB", func(l look) float64 { return l.anon - l.stacks }, false, 25},
	{"file", "pages of programs", "KiB", func(l look) float64 { return l.file }, false, 25},
	{"shmem", "pages of rings", "KiB", func(l look) float64 { return l.shmem }, false, 25},
	{"heap_live", "live Go heap", "KiB", func(l look) float64 { return l.goes.live }, true, 25},
	{"stacks", "Go stacks", "KiB", func(l look) float64 { return l.stacks }, false, 0},
	{"beyond_go", "beyond heap and stacks", "KiB", func(l look) float64 { return l.goes.beyond }, true, 25},
	{"goroutines", "goroutines", "", func(l look) float64 { return l.goes.goroutines }, true, 0.5},
	{"descriptors", "descriptors", "", func(l look) float64 { return l.descriptors }, false, 0.2},
	{"threads", "threads", "", func(l look) float64 { return l.threads }, false, 0.2},
}

// growth is how an agent's figures went.
type growth struct {
	Host            string
	Slopes          [len(figures)]slope
	LinesPerMinute  float64
	StallsPerMinute float64
	Lines           slope   // of the lines a minute, per minute
	Stacks, Ceiling float64 // of the last look that asked, KiB
}

// growthOf takes the looks that are not older than settled.
func growthOf(host string, looks []look, settled time.Duration) growth {
	for len(looks) > 0 && looks[0].at < settled {
		looks = looks[1:]
	}
	g := growth{Host: host}
	for i, f := range figures {
		g.Slopes[i] = slopeOf(pointsOf(f, looks))
	}
	for _, l := range looks {
		if l.goes != nil {
			g.Stacks, g.Ceiling = l.stacks, l.goes.ceiling
		}
	}
	if last := len(looks) - 1; last > 0 {
		minutes := (looks[last].at - looks[0].at).Minutes()
		g.LinesPerMinute = (looks[last].lines - looks[0].lines) / minutes
		g.StallsPerMinute = (looks[last].stalls - looks[0].stalls) / minutes
		rates := make([]point, 0, last)
		for i := range last {
			minutes := (looks[i+1].at - looks[i].at).Minutes()
			rates = append(rates, point{looks[i+1].at, (looks[i+1].lines - looks[i].lines) / minutes})
		}
		g.Lines = slopeOf(rates)
	}
	return g
}

// pointsOf is a figure's course.
func pointsOf(f figure, looks []look) []point {
	points := make([]point, 0, len(looks))
	for _, l := range looks {
		if !f.asked || l.goes != nil {
			points = append(points, point{l.at, f.value(l)})
		}
	}
	return points
}

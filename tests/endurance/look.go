package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// look is one look at an agent.
type look struct {
	at          time.Duration
	rss         float64 // KiB
	descriptors float64
	threads     float64
	lines       float64 // of log, since its start, but those of stalls
	stalls      float64 // lines that say that the machine gave a thread no time
}

// lookAt reads what the kernel says of a process.
func lookAt(pid int, log []byte) (l look, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return l, err
	}
	for line := range strings.Lines(string(status)) {
		name, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		switch name {
		case "VmRSS":
			l.rss, err = strconv.ParseFloat(fields[0], 64)
		case "Threads":
			l.threads, err = strconv.ParseFloat(fields[0], 64)
		}
		if err != nil {
			return l, fmt.Errorf("%s of process %d: %w", name, pid, err)
		}
	}
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return l, err
	}
	l.descriptors = float64(len(open))
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(`"event":"fabric_thread_stall"`)) || bytes.Contains(line, []byte(`"event":"reconcile_work_slow"`)) {
			l.stalls++
		} else {
			l.lines++
		}
	}
	return l, nil
}

// slope is a straight line's through looks, per minute, with its standard error:
// what is smaller than a few of those is noise.
type slope struct{ PerMinute, Error float64 }

// slopeOf fits the line by least squares.
func slopeOf(looks []look, value func(look) float64) slope {
	n := float64(len(looks))
	if n < 3 {
		return slope{}
	}
	var mx, my float64
	for _, l := range looks {
		mx += l.at.Minutes() / n
		my += value(l) / n
	}
	var xx, xy float64
	for _, l := range looks {
		xx += (l.at.Minutes() - mx) * (l.at.Minutes() - mx)
		xy += (l.at.Minutes() - mx) * (value(l) - my)
	}
	if xx == 0 {
		return slope{}
	}
	s := slope{PerMinute: xy / xx}
	var squares float64
	for _, l := range looks {
		d := value(l) - my - s.PerMinute*(l.at.Minutes()-mx)
		squares += d * d
	}
	s.Error = math.Sqrt(squares / (n - 2) / xx)
	return s
}

// grows says whether a slope is above a limit by more than noise: three standard
// errors.
func (s slope) grows(limit float64) bool { return s.PerMinute-3*s.Error > limit }

// growth is how an agent's figures went.
type growth struct {
	Host                      string
	RSS, Descriptors, Threads slope
	LinesPerMinute            float64
	StallsPerMinute           float64
	Lines                     slope // of the lines a minute, per minute
}

func growthOf(host string, looks []look) growth {
	g := growth{Host: host,
		RSS:         slopeOf(looks, func(l look) float64 { return l.rss }),
		Descriptors: slopeOf(looks, func(l look) float64 { return l.descriptors }),
		Threads:     slopeOf(looks, func(l look) float64 { return l.threads }),
	}
	if last := len(looks) - 1; last > 0 {
		g.LinesPerMinute = (looks[last].lines - looks[0].lines) / (looks[last].at - looks[0].at).Minutes()
		g.StallsPerMinute = (looks[last].stalls - looks[0].stalls) / (looks[last].at - looks[0].at).Minutes()
		rates := make([]look, 0, last)
		for i := range last {
			minutes := (looks[i+1].at - looks[i].at).Minutes()
			rates = append(rates, look{at: looks[i+1].at, lines: (looks[i+1].lines - looks[i].lines) / minutes})
		}
		g.Lines = slopeOf(rates, func(l look) float64 { return l.lines })
	}
	return g
}

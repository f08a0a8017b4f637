package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

// pageEvery is how many looks there are for each at which an agent's metrics page
// is read too: a scrape every five seconds.
const pageEvery = 5

// watch is all looks at all agents of a studio.
type watch struct {
	studio  *studio.Studio
	every   time.Duration
	began   time.Time
	history map[*plant.Host][]look
	settled time.Duration // looks before it are of the warm-up
}

// newWatch looks every second at a run of ten minutes, and as often at a longer one.
func newWatch(s *studio.Studio, duration time.Duration) *watch {
	return &watch{studio: s, every: max(time.Second, duration/600), began: time.Now(), history: map[*plant.Host][]look{}}
}

// run looks for a time. It says every half a minute how things are; marks may be nil.
func (w *watch) run(ctx context.Context, duration time.Duration, marks map[*studio.Path]witness.Seen) error {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	began := time.Now()
	shown := began
	for {
		now := time.Now()
		for _, h := range w.studio.Hosts {
			if err := w.look(ctx, h); err != nil {
				return fmt.Errorf("agent of %s: %w", h.HostID, err)
			}
		}
		over := now.Sub(began) >= duration
		if marks != nil && (over || now.Sub(shown) >= 30*time.Second) {
			shown = now
			w.show(now.Sub(began), marks)
		}
		if over {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (w *watch) look(ctx context.Context, h *plant.Host) error {
	l, err := lookAt(h.PID(), h.Output())
	if err != nil {
		return err
	}
	l.at = time.Since(w.began)
	if len(w.history[h])%pageEvery == 0 {
		status, page, err := h.Do(ctx, http.MethodGet, "/metrics", nil)
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		if err == nil {
			err = l.ask(page)
		}
		if err != nil {
			return fmt.Errorf("GET /metrics: %w", err)
		}
	} else {
		l.stacks = w.history[h][len(w.history[h])-1].stacks
	}
	w.history[h] = append(w.history[h], l)
	return nil
}

func (w *watch) show(at time.Duration, marks map[*studio.Path]witness.Seen) {
	var seen outcome
	for _, p := range w.studio.Paths() {
		seen.take(p.Name, p.Since(marks[p]))
	}
	fmt.Printf("  %5.0f s  %d verified, %d lost, %d bad", at.Seconds(), seen.Verified, seen.Lost, seen.Bad)
	for _, h := range w.studio.Hosts {
		l := w.history[h][len(w.history[h])-1]
		fmt.Printf("   %s %.1f MiB, %.1f of it anonymous, %.0f fds, %.0f threads, %.0f lines", h.HostID, l.rss/1024, l.anon/1024, l.descriptors, l.threads, l.lines)
	}
	fmt.Println()
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// site is the two agents with the writers and readers of all flows.
type site struct {
	mesh             *mesh.Mesh
	flows            []mesh.Flow
	writers, readers []*mesh.Process
}

// connect starts the writers and waits until every flow arrives.
func (s *site) connect(ctx context.Context) error {
	for i, f := range s.flows {
		w, err := s.mesh.Write(s.mesh.A, f)
		if err != nil {
			return err
		}
		s.writers = append(s.writers, w)
		if err := s.mesh.Connect(ctx, i, f); err != nil {
			return err
		}
	}
	for _, f := range s.flows {
		if err := s.mesh.Flowing(ctx, f, time.Minute); err != nil {
			return err
		}
	}
	return nil
}

// read verifies every flow for the duration and shows progress.
func (s *site) read(ctx context.Context, duration time.Duration) error {
	began := time.Now()
	for _, f := range s.flows {
		r, err := s.mesh.Read(s.mesh.B, f, duration)
		if err != nil {
			return err
		}
		s.readers = append(s.readers, r)
	}
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	limit := time.NewTimer(duration + time.Minute)
	defer limit.Stop()
	for _, r := range s.readers {
		for r.Running() {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-limit.C:
				return fmt.Errorf("%s has not ended %v after its time: nothing arrives", r.Name, time.Minute)
			case <-r.Done():
			case now := <-tick.C:
				rows, err := s.mesh.B.Replications(ctx)
				if err != nil {
					return err
				}
				active, worst := 0, 0.0
				for _, row := range rows {
					if row.State == "active" {
						active++
					}
					worst = max(worst, row.LagMS)
				}
				fmt.Printf("  %5.1f s  %d of %d active, lag at most %.1f ms\n", now.Sub(began).Seconds(), active, len(s.flows), worst)
			}
		}
	}
	return nil
}

// usage is what the agents (source, destination) have used and moved so far.
type usage struct {
	at        time.Time
	cpu, rss  [2]float64 // seconds, MiB
	transfers uint64     // of all flows
}

func (s *site) look(ctx context.Context) (u usage, err error) {
	u.at = time.Now()
	for i, a := range []*mesh.Agent{s.mesh.A, s.mesh.B} {
		of, err := a.Usage()
		if err != nil {
			return u, err
		}
		u.cpu[i], u.rss[i] = of.CPUSeconds, of.RSSMiB
	}
	rows, err := s.mesh.B.Replications(ctx)
	for _, row := range rows {
		u.transfers += row.Grains
	}
	return u, err
}

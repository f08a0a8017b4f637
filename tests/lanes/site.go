package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
)

// site is the two agents with the writer of all flows and a witness of each.
type site struct {
	mesh      *mesh.Mesh
	flows     []mesh.Flow
	writer    writer
	witnesses []*witness.Witness
	running   sync.WaitGroup
	wrote     error // how the writer ended
}

// connect starts the writer and waits until every flow arrives.
func (s *site) connect(ctx context.Context, l load) error {
	if err := s.writer.open(s.mesh, s.flows, l.video); err != nil {
		return err
	}
	s.running.Go(func() { s.wrote = s.writer.run(ctx) })
	for i, f := range s.flows {
		if err := s.mesh.Connect(ctx, i, f); err != nil {
			return err
		}
	}
	for i, f := range s.flows {
		if err := s.mesh.Flowing(ctx, f, time.Minute); err != nil {
			return err
		}
		w := witness.New(witness.Path{
			Name: f.Name, FlowID: uuid.MustParse(f.ID), Discrete: i < l.video,
			Origin: filepath.Join(s.mesh.A.Root, f.Domain), Mirror: s.mesh.B.MirrorDomain(f.DomainID),
		})
		s.witnesses = append(s.witnesses, w)
		s.running.Go(func() { w.Run(ctx) })
	}
	return nil
}

// watch shows progress for the duration.
func (s *site) watch(ctx context.Context, duration time.Duration) (worstLag float64, err error) {
	began := time.Now()
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	end := time.NewTimer(duration)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return worstLag, ctx.Err()
		case <-end.C:
			return worstLag, nil
		case now := <-tick.C:
			rows, err := s.mesh.B.Replications(ctx)
			if err != nil {
				return worstLag, err
			}
			active, worst := 0, 0.0
			for _, row := range rows {
				if row.State == "active" {
					active++
				}
				worst = max(worst, row.LagMS)
			}
			worstLag = max(worstLag, worst)
			fmt.Printf("  %5.1f s  %d of %d active, lag at most %.1f ms\n", now.Sub(began).Seconds(), active, len(s.flows), worst)
		}
	}
}

// verdict adds up what the witnesses saw since their marks. The error says what was
// wrong with which flow.
func (s *site) verdict(marks []witness.Seen, l load, results map[string]float64) error {
	var wrong error
	for i, w := range s.witnesses {
		unit := "grains"
		if i >= l.video {
			unit = "samples"
		}
		seen := w.Since(marks[i])
		results[unit+"_verified"] += float64(seen.Verified)
		results[unit+"_lost"] += float64(seen.Lost)
		results["bad"] += float64(seen.Bad)
		switch {
		case seen.Bad > 0:
			wrong = errors.Join(wrong, fmt.Errorf("%s: bad: %s", w.Name, seen.FirstBad))
		case seen.Lost > 0, seen.Verified == 0:
			wrong = errors.Join(wrong, fmt.Errorf("%s: %d lost, %d verified", w.Name, seen.Lost, seen.Verified))
		}
	}
	return wrong
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

// Command outage kills the NMOS registry under a running replication, brings it
// back empty after a while, and checks that nothing else happened: no grain lost,
// the mirror's files untouched, both agents registered again soon after. It
// writes build/results/outage.json. Run it from the top of the tree, after make
// build.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const (
	resultFile = "build/results/outage.json"

	before = 12 * time.Second // of verified replication, two heartbeats
	after  = 18 * time.Second

	returnLimit    = 10 * time.Second // registered again
	heartbeatLimit = 6 * time.Second
)

func main() {
	outage := flag.Duration("outage", time.Minute, "how `long` the registry is away")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *outage); err != nil {
		fmt.Fprintln(os.Stderr, "outage:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, outage time.Duration) error {
	_ = os.Remove(resultFile)
	flow := mesh.Flow{Name: "video", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e01", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5e01", Domain: "studio",
		Options: []string{"--format", "v210", "--width", "320", "--height", "180", "--rate", "50", "--history-ms", "2000"}}
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: "build/outage", Receivers: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	writer, err := m.Write(m.A, flow)
	if err != nil {
		return err
	}
	if err := m.Connect(ctx, 0, flow); err != nil {
		return err
	}
	if err := m.Flowing(ctx, flow, 30*time.Second); err != nil {
		return err
	}
	inode, err := mirrorInode(m, flow)
	if err != nil {
		return err
	}
	reader, err := m.Read(m.B, flow, before+outage+after)
	if err != nil {
		return err
	}
	if err := wait(ctx, before, reader); err != nil {
		return err
	}
	fmt.Printf("outage: a replication runs, verified; the registry goes away for %v\n", outage)
	heartbeats := longestInterval(m) // only while the registry is there
	m.NMOS.StopRegistry()
	if err := wait(ctx, outage, reader); err != nil {
		return err
	}
	m.NMOS.ResetStats()
	if err := m.NMOS.StartRegistry(); err != nil {
		return err
	}
	back := time.Now()
	fmt.Println("outage: the registry is back, empty")
	if err := mesh.Eventually(ctx, 2*returnLimit, "both agents are registered again", func() error {
		if n := len(m.NMOS.Registered()); n != 2 {
			return fmt.Errorf("%d nodes are registered", n)
		}
		return nil
	}); err != nil {
		return err
	}
	registered := time.Since(back)
	<-reader.Done()
	got, err := mesh.Result[mesh.Totals](reader)
	if err != nil {
		return err
	}
	now, err := mirrorInode(m, flow)
	if err != nil {
		return err
	}
	heartbeats = max(heartbeats, longestInterval(m))
	writer.Stop(10 * time.Second)
	written, err := mesh.Result[mesh.Written](writer)
	if err != nil {
		return err
	}
	return verdict(got, got.LostInTransit(written), inode == now, registered, heartbeats)
}

func verdict(got mesh.Totals, lost uint64, sameInode bool, registered, heartbeats time.Duration) error {
	if _, err := mesh.Report(resultFile, map[string]any{"seconds": got.Seconds, "grains_per_s": got.Rate, "grains_lost": lost, "bad_grains": got.Bad + got.Invalid,
		"mirror_inode_kept": sameInode, "registered_after_s": registered.Seconds(), "heartbeat_interval_max_s": heartbeats.Seconds()}); err != nil {
		return err
	}
	fmt.Printf("outage: %d grains in %.0f s verified, %d lost, %d bad; same mirror files: %v; registered again after %.1f s; longest heartbeat interval %.2f s\n",
		got.Verified, got.Seconds, lost, got.Bad+got.Invalid, sameInode, registered.Seconds(), heartbeats.Seconds())
	if lost > 0 || got.Bad > 0 || got.Invalid > 0 || got.Verified == 0 || !sameInode || registered > returnLimit || heartbeats == 0 || heartbeats > heartbeatLimit {
		return fmt.Errorf("not as it should be: %s", got.FirstBad)
	}
	return nil
}

// wait lets time pass as long as the reader runs.
func wait(ctx context.Context, d time.Duration, reader *mesh.Process) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-reader.Done():
		return fmt.Errorf("the reader ended early, see %s", reader.Log)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func longestInterval(m *mesh.Mesh) (longest time.Duration) {
	for _, n := range m.NMOS.Stats().Nodes {
		longest = max(longest, time.Duration(n.IntervalMaxMS)*time.Millisecond)
	}
	return longest
}

func mirrorInode(m *mesh.Mesh, f mesh.Flow) (uint64, error) {
	info, err := os.Stat(filepath.Join(m.B.MirrorDomain(f.DomainID), f.ID+".mxl-flow", "data"))
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
)

// files are the scenarios about what happens below an MXL root.
func files() []scenario {
	return []scenario{
		{name: "mirror_flow_removed", about: "a mirror flow's directory is removed by hand", run: mirrorFlowRemoved, check: rebuiltAs("replaced")},
		{name: "mirror_domain_removed", about: "a whole mirror domain is removed by hand", run: mirrorDomainRemoved},
		{name: "tmpfs_full", about: "a host's tmpfs is full to the last byte, and another flow is wanted there", run: tmpfsFull},
		{name: "origin_truncated", about: "the grain files of an origin are cut to nothing while all map them", run: originTruncated},
		{name: "mirror_truncated", about: "the grain files of a mirror are cut to nothing while all map them", run: mirrorTruncated(true, grainFiles, 0), check: rebuiltAs("replaced")},
		{name: "mirror_payloads_cut", about: "the grain files of a mirror are cut behind their headers while all map them", run: mirrorTruncated(true, grainFiles, mxl.PayloadOffset), check: rebuiltAs("replaced")},
		{name: "mirror_ring_truncated", about: "the sample ring of a mirror is cut to nothing while all map it", run: mirrorTruncated(false, sampleRing, 0), check: rebuiltAs("replaced")},
		{name: "mirror_header_truncated", about: "the header of a mirror is cut to nothing while all map it", run: mirrorTruncated(true, flowHeader, 0), check: rebuiltAs("replaced")},
		{name: "mirror_truncated_again", about: "the grain files of a mirror are cut to nothing whenever they are there again", run: mirrorTruncatedAgain, check: rebuiltAs("replaced")},
	}
}

// replaced waits for another file.
func replaced(p *studio.Path) <-chan time.Time { return p.Replacement() }

func mirrorFlowRemoved(ctx context.Context, r *run) error {
	paths := slices.DeleteFunc(r.Paths(), func(p *studio.Path) bool { return p.To != r.a })
	p := paths[r.random.IntN(len(paths))]
	r.touch(only(p))
	if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	r.overWith(only(p), replaced)
	return os.RemoveAll(filepath.Dir(p.Data()))
}

func mirrorDomainRemoved(ctx context.Context, r *run) error {
	hit := func(p *studio.Path) bool { return p.From == r.a && p.To == r.b }
	r.touch(hit)
	if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	r.overWith(hit, replaced)
	for _, p := range r.Paths() {
		if hit(p) {
			return os.RemoveAll(p.Mirror)
		}
	}
	return nil
}

// tmpfsFull fills the MXL root of host b, then wants a flow there that needs room.
func tmpfsFull(ctx context.Context, r *run) error {
	ballast := filepath.Join(r.b.Root, ".ballast")
	if err := fill(ballast); err != nil {
		return err
	}
	r.clean(func(context.Context) error {
		if err := os.Remove(ballast); !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
	if err := mesh.Pause(ctx, time.Second); err != nil {
		return err
	}
	f, paths, err := r.guest(ctx, r.a, studio.Video, r.b)
	if err != nil {
		return err
	}
	err = mesh.Eventually(ctx, 15*time.Second, r.b.HostID+" says insufficient_space", func() error {
		row, err := r.b.Mirror(ctx, f.DomainID)
		if err != nil {
			return err
		}
		for _, flow := range row.Flows {
			if flow.FlowID == f.ID && flow.State == "insufficient_space" {
				return nil
			}
		}
		return fmt.Errorf("not among %+v", row.Flows)
	})
	if err != nil {
		return err
	}
	if _, err := os.Stat(paths[0].Data()); err == nil {
		return fmt.Errorf("the mirror of %s was made on a full filesystem", paths[0].Name)
	}
	r.over(only(paths[0]))
	return os.Remove(ballast)
}

// fill takes every byte that a filesystem has left.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	var at int64
	for step := int64(64 << 20); step >= 4096; {
		if err := unix.Fallocate(int(f.Fd()), 0, at, step); err == nil {
			at += step
		} else if errors.Is(err, unix.ENOSPC) {
			step /= 2
		} else {
			return fmt.Errorf("fill %s: %w", path, err)
		}
	}
	return nil
}

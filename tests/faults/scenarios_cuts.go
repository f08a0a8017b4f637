package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
)

// Files of a flow directory.
const (
	grainFiles = "grains/data.*"
	sampleRing = "channels"
	flowHeader = "data"
)

// cut truncates files of a flow directory.
func cut(directory, pattern string, size int64) error {
	files, err := filepath.Glob(filepath.Join(directory, pattern))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no %s in %s", pattern, directory)
	}
	for _, file := range files {
		// A writer that fell over the first ones may take its flow away meanwhile.
		if cut := os.Truncate(file, size); !errors.Is(cut, os.ErrNotExist) {
			err = errors.Join(err, cut)
		}
	}
	return err
}

// originTruncated cuts an origin's grain files, waits for its writer to fall over
// them, and has it write the flow anew.
func originTruncated(ctx context.Context, r *run) error {
	f := r.someFlow(true)
	r.touch(of(f))
	if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	if err := cut(f.Directory(), grainFiles, 0); err != nil {
		return err
	}
	if err := r.upTo(ctx, longestDown); err != nil {
		return err
	}
	f.Writer.Stop(5 * time.Second)
	if err := os.RemoveAll(f.Directory()); err != nil {
		return err
	}
	r.over(of(f))
	return f.Write()
}

// mirrorTruncated cuts the files of a mirror that an agent writes. Its process lives,
// and it makes the mirror anew by itself: nobody removes what was cut.
func mirrorTruncated(discrete bool, files string, size int64) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		paths := slices.DeleteFunc(r.Paths(), func(p *studio.Path) bool { return p.To != r.a || p.Discrete != discrete })
		p := paths[r.random.IntN(len(paths))]
		r.touch(only(p))
		if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		r.overWith(only(p), replaced)
		return cut(filepath.Dir(p.Data()), files, size)
	}
}

// cuts is how often mirrorTruncatedAgain cuts a mirror. The agent rests for 0, 500,
// 1000 and 2000 ms after them, and for 4 s after the fifth.
const cuts = 5

// mirrorTruncatedAgain cuts a mirror as soon as it carries grains again. The agent must
// not make mirrors as fast as somebody cuts them.
func mirrorTruncatedAgain(ctx context.Context, r *run) error {
	_, paths, err := r.guest(ctx, r.b, studio.Video, r.a)
	if err != nil {
		return err
	}
	p := paths[0]
	if err := arrives(ctx, p); err != nil {
		return err
	}
	began := time.Now()
	for i := range cuts - 1 {
		anew := p.Replacement()
		if err := cut(filepath.Dir(p.Data()), grainFiles, 0); err != nil {
			return err
		}
		select {
		case <-anew:
		case <-time.After(patience):
			return fmt.Errorf("%s was not made anew after cut %d", p.Name, i+1)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.note("%d cuts in %.1f s", cuts, time.Since(began).Seconds())
	if took := time.Since(began); took < 3500*time.Millisecond {
		return fmt.Errorf("%s was made anew %d times in %v: the agent does not rest in between", p.Name, cuts-1, took)
	}
	r.overWith(only(p), replaced)
	return cut(filepath.Dir(p.Data()), grainFiles, 0)
}

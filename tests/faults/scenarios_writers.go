package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
)

// writers are the scenarios about the media functions that write.
func writers() []scenario {
	return []scenario{
		{name: "writer_sigkill", about: "a writer is killed, its files stay, and it starts again over them", limit: writerLimit, run: writerEnds(syscall.SIGKILL, 0)},
		{name: "writer_sigterm", about: "a writer ends, its flow goes with it, and the same one is created again", limit: writerLimit, run: writerEnds(syscall.SIGTERM, 0)},
		{name: "writer_sigstop", about: "a writer stands still: no fault of the fabric", run: writerStands, check: noRebuild},
		{name: "writer_gone", about: "a writer is away for longer than MIRROR_GRACE_S", run: writerEnds(syscall.SIGTERM, 12*time.Second)},
		{name: "writer_gone_killed", about: "the same, killed: its files lie there all the time", run: writerEnds(syscall.SIGKILL, 12*time.Second)},
		{name: "writer_other_definition", about: "a writer comes back with another picture height under the same flow id", limit: writerLimit, run: writerDiffers, check: rebuiltAs("origin_config_changed")},
		{name: "origin_moved", about: "a flow's writer is killed and starts on another host; the old domain stays, then goes", run: originMoves, check: oldDomainGoes},
		{name: "origin_twice", about: "two hosts write one flow; then the first one stops", run: originTwice},
		{name: "clock_step_forward", about: "a writer's clock steps forward by 10 s: its indexes jump", run: clockSteps(250)},
		{name: "clock_step_back", about: "a writer's clock steps back by 10 s: its indexes repeat", run: clockSteps(-250)},
	}
}

// someFlow is any of the studio's flows; of grains, when asked for.
func (r *run) someFlow(discrete bool) *studio.Flow {
	flows := slices.DeleteFunc(slices.Clone(r.Flows), func(f *studio.Flow) bool { return discrete && !f.Discrete })
	return flows[r.random.IntN(len(flows))]
}

// writerEnds ends the writer of a flow and starts it again after a time.
func writerEnds(signal syscall.Signal, away time.Duration) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		f := r.someFlow(false)
		r.touch(of(f))
		if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		f.Writer.Signal(signal)
		if err := ends(f.Writer, 5*time.Second); err != nil {
			return err
		}
		if err := mesh.Pause(ctx, away); err != nil {
			return err
		}
		if err := r.upTo(ctx, longestDown); err != nil {
			return err
		}
		r.over(of(f))
		return f.Write()
	}
}

func writerStands(ctx context.Context, r *run) error {
	f := r.someFlow(false)
	r.touch(of(f))
	f.Writer.Signal(syscall.SIGSTOP)
	r.clean(func(context.Context) error { f.Writer.Signal(syscall.SIGCONT); return nil })
	if err := mesh.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := r.upTo(ctx, longestStill); err != nil {
		return err
	}
	r.over(of(f))
	f.Writer.Signal(syscall.SIGCONT)
	return nil
}

// noRebuild checks that no touched mirror became another file.
func noRebuild(_ context.Context, r *run) error {
	for p := range r.touched {
		if seen := p.Since(r.marks[p]); seen.Replaced > 0 {
			return fmt.Errorf("the mirror of %s became another file", p.Name)
		}
	}
	return nil
}

// rebuiltAs checks that every touched mirror was rebuilt for a reason.
func rebuiltAs(reason string) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		for p := range r.touched {
			err := mesh.Eventually(ctx, 5*time.Second, p.To.HostID+" says why it rebuilt "+p.Name, func() error {
				return lastRebuild(ctx, p, reason)
			})
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func lastRebuild(ctx context.Context, p *studio.Path, reason string) error {
	row, err := p.To.Mirror(ctx, p.Flow.DomainID)
	if err != nil {
		return err
	}
	for _, f := range row.Flows {
		if f.FlowID != p.Flow.ID {
			continue
		}
		if f.Health.LastRebuildReason == nil || *f.Health.LastRebuildReason != reason {
			return fmt.Errorf("the last rebuild is %v, want %s", f.Health.LastRebuildReason, reason)
		}
		return nil
	}
	return fmt.Errorf("no flow %s in the mirror", p.Flow.ID)
}

// writerDiffers gives a flow another picture height.
func writerDiffers(ctx context.Context, r *run) error {
	e := studio.Video
	f, paths, err := r.guest(ctx, r.a, e, r.b, r.c)
	if err != nil {
		return err
	}
	if err := arrives(ctx, paths...); err != nil {
		return err
	}
	if code := f.Writer.Stop(5 * time.Second); code != 0 {
		return fmt.Errorf("the writer ended with %d, see %s", code, f.Writer.Log)
	}
	f.Options = slices.Clone(f.Options)
	f.Options[slices.Index(f.Options, "36")] = "20"
	for _, p := range paths {
		r.marks[p] = p.Mark()
	}
	r.over(of(f))
	return f.Write()
}

// originMoves starts the writer of a guest on another host while the files of
// the first one lie there.
func originMoves(ctx context.Context, r *run) error {
	f, paths, err := r.guest(ctx, r.a, studio.Video, r.c)
	if err != nil {
		return err
	}
	if err := arrives(ctx, paths...); err != nil {
		return err
	}
	f.Writer.Signal(syscall.SIGKILL)
	if err := ends(f.Writer, 5*time.Second); err != nil {
		return err
	}
	if err := r.upTo(ctx, longestDown); err != nil {
		return err
	}
	paths[0].MoveOrigin(f.DomainDirectory(r.b))
	r.over(of(f))
	f.From = r.b
	return f.Write()
}

// oldDomainGoes removes what the first origin left and sees nothing lost.
func oldDomainGoes(ctx context.Context, r *run) error {
	if err := mesh.Pause(ctx, settle); err != nil {
		return err
	}
	for p := range r.touched {
		seen := p.Seen()
		if err := os.RemoveAll(p.Flow.DomainDirectory(r.a)); err != nil {
			return err
		}
		if err := mesh.Pause(ctx, 2*time.Second); err != nil {
			return err
		}
		if now := p.Since(seen); now.Lost > 0 || now.Verified == 0 {
			return fmt.Errorf("%s lost %d and got %d when the old origin's domain went", p.Name, now.Lost, now.Verified)
		}
	}
	return nil
}

// originTwice has a second host write a guest's flow, which must change nothing
// but a line in the log, and then ends the first writer.
func originTwice(ctx context.Context, r *run) error {
	f, paths, err := r.guest(ctx, r.a, studio.Video, r.c)
	if err != nil {
		return err
	}
	if err := arrives(ctx, paths...); err != nil {
		return err
	}
	path, first := paths[0], f.Writer
	seen := path.Mark()
	f.From = r.b
	if err := f.Write(); err != nil {
		return err
	}
	err = mesh.Eventually(ctx, 10*time.Second, r.c.HostID+" logs the conflict", func() error {
		if len(r.c.Logged("origin_conflict")) == 0 {
			return fmt.Errorf("no origin_conflict in %s", r.c.Log)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := mesh.Pause(ctx, time.Second); err != nil {
		return err
	}
	if now := path.Since(seen); now.Lost > 0 || now.Verified == 0 {
		return fmt.Errorf("%s lost %d and got %d when a second origin came", path.Name, now.Lost, now.Verified)
	}
	path.MoveOrigin(f.DomainDirectory(r.b))
	r.over(of(f))
	first.Signal(syscall.SIGKILL)
	return ends(first, 5*time.Second)
}

// clockSteps has a guest's writer jump. CLOCK_TAI cannot be stepped for a few
// processes (time namespaces cover the monotonic clocks only), so it is the
// writer that shifts its indexes, as it would after a step of its host's clock.
func clockSteps(by int) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		e := studio.Video
		e.Options = append(slices.Clone(e.Options), "--jump-at", "75", "--jump-by", fmt.Sprint(by))
		f, paths, err := r.guest(ctx, r.a, e, r.b, r.c)
		if err != nil {
			return err
		}
		if err := arrives(ctx, paths...); err != nil {
			return err
		}
		origin, err := mxl.OpenDomain(f.DomainDirectory(r.a))
		if err != nil {
			return err
		}
		ring, err := origin.OpenDiscreteReader(uuid.MustParse(f.ID))
		if err != nil {
			return err
		}
		defer ring.Close()
		deadline := time.Now().Add(10 * time.Second)
		news := func(p *studio.Path) <-chan time.Time { return p.News() }
		if by < 0 {
			news = func(p *studio.Path) <-chan time.Time { return p.Rewound(uint64(-by) / 2) }
		}
		for last := ring.Head(); ; {
			seen := ring.Sync()
			head := ring.Head()
			if head < last || head > last+100 {
				break
			}
			if last = head; time.Now().After(deadline) || !f.Writer.Running() {
				return fmt.Errorf("the writer does not jump, see %s", f.Writer.Log)
			}
			if _, err := ring.WaitSync(seen, 5*time.Millisecond); err != nil {
				return err
			}
		}
		r.overWith(of(f), news)
		return nil
	}
}

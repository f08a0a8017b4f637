// Command bench measures how fast, how soon and at what price a flow gets from an
// origin to a mirror on this machine, beside what the kernel and libfabric can do
// with the same messages:
//
//	tcp    plain TCP, blocking, memory to memory (raw/tcp.c)
//	raw    libfabric's RMA writes with immediate, delivery complete, both ends
//	       asleep in fi_cq_sread (raw/fabric.c)
//	lanes  package fabrics: a source lane and a target lane, each alone in its
//	       process, from the commit in the origin flow to the commit in the mirror
//
// The ways take turns, round after round; figures are medians over the rounds. All
// move messages of the same size over loopback, each end in a process of its own,
// from and to shared memory whose pages are present. Nobody touches payload: a
// sender writes message headers, the origin's writer commits headers.
//
// Back to back, as many messages are in flight as a lane has: up to four grains,
// which the origin's writer keeps supplied by staying a little ahead of the mirror,
// or one audio transfer. A measurement in which not every commit arrived is not
// counted.
//
// Paced, a message is ready when its index is due. Latency counts from there: for
// tcp and raw from before the send to after the receiver's wake-up, for lanes from
// before the origin's commit to the mirror's commit (video: the write time in the
// mirror's header; audio: its head, looked at every 100 µs).
//
// Audio is written in commits of 1 ms. Lanes gather them into transfers about 4 ms
// apart, because that is how the contract times audio, so "raw" is bound to the same
// rule there; "raw free" sends every commit by itself, and back to back as fast as it
// goes.
//
// Processor time is what the operating system counted for the two processes of a
// way. Origin writer and mirror reader are media functions, not lanes: they live in
// this process and are not counted. The comparison programs pace themselves; those of
// audio run beside a writer and a reader like the lanes', which wake some thousand
// times a second and so leave either way cold caches. Nobody sleeps on the mirror of
// audio: a reader who does costs the target a wake-up in each sync batch, which is
// not in these figures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options of a run.
type options struct {
	rounds  int
	seconds float64
	quick   bool
	results string
	media   string
	ways    string
	lanes   int
	idle    time.Duration
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == laneRole {
		if err := laneMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench lane:", err)
			os.Exit(1)
		}
		return
	}
	o := options{lanes: 30}
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of all ways in turn")
	flag.Float64Var(&o.seconds, "seconds", 5, "seconds of each measurement")
	flag.BoolVar(&o.quick, "quick", false, "less than a minute: does it work, roughly how fast")
	flag.StringVar(&o.results, "results", filepath.Join("build", "results"), "directory for bench.json and bench.png")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long idle lanes are measured; 0 leaves it out")
	flag.StringVar(&o.media, "media", "video,audio", "media to measure")
	flag.StringVar(&o.ways, "ways", "tcp,raw,raw free,lanes", "ways to measure")
	flag.Parse()
	if o.quick {
		o.rounds, o.seconds, o.idle = 1, 1.2, min(o.idle, 3*time.Second)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := bench(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// phases are those that the options ask for.
func (o options) phases() (list []phase) {
	for _, p := range phases() {
		if named(o.media, p.media) && named(o.ways, p.way) {
			list = append(list, p)
		}
	}
	return list
}

// named tells whether a list of words separated by commas has the word.
func named[T ~string](list string, word T) bool {
	return slices.Contains(strings.Split(list, ","), string(word))
}

// attempts is how often a measurement is made again when not everything arrived,
// which happens where other work keeps a process from the CPU for half a ring's
// time. The result says how many were not counted.
const attempts = 3

func measure(ctx context.Context, p phase, programs programs, site laneSite) (outcome, error) {
	if p.way == lanesWay {
		return site.run(ctx, p)
	}
	if p.media == audio {
		return site.beside(ctx, p, programs.run)
	}
	return programs.run(ctx, p)
}

func bench(ctx context.Context, o options) error {
	if o.rounds < 1 || o.seconds <= 0 {
		return fmt.Errorf("%d rounds of %g s measure nothing", o.rounds, o.seconds)
	}
	programs, err := buildPrograms(ctx, filepath.Join("build", "bench"))
	if err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("/dev/shm", "mxl-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	site := laneSite{program: self, root: scratch}

	selected := o.phases()
	var all series
	span := time.Duration(o.seconds * float64(time.Second))
	host := lookAround()
	for round := range o.rounds {
		for _, p := range selected {
			p.span = span
			for attempt := range attempts {
				got, err := measure(ctx, p, programs, site)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				if err == nil {
					fmt.Fprintf(os.Stderr, "round %d/%d  %-27s %s\n", round+1, o.rounds, p, got)
					all.add(p, round, got)
					break
				}
				if !errors.Is(err, errIncomplete) {
					return fmt.Errorf("%s: %w", p, err)
				}
				fmt.Fprintf(os.Stderr, "round %d/%d  %-27s attempt %d not counted: %v\n", round+1, o.rounds, p, attempt+1, err)
				all.invalid++
			}
		}
	}
	idle := make(map[media]idleOutcome)
	for _, m := range []media{video, audio} {
		if o.idle <= 0 || !named(o.media, m) || !named(o.ways, lanesWay) {
			continue
		}
		if idle[m], err = site.idle(ctx, m, o.lanes, o.idle); err != nil {
			return fmt.Errorf("idle %s lanes: %w", m, err)
		}
		fmt.Fprintf(os.Stderr, "idle       %d %s lanes     %s\n", o.lanes, m, idle[m])
	}
	s := summarize(&all, idle)
	s.facts(o, host)
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	s.print(os.Stdout)
	return errors.Join(
		all.missing(selected),
		s.save(filepath.Join(o.results, "bench.json")),
		drawLatencies(&all, filepath.Join(o.results, "bench.png")),
	)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// readOptions are the options of read.
type readOptions struct {
	domain      string
	flow        uuid.UUID
	wait        time.Duration
	duration    time.Duration
	count       uint64
	behind      uint64
	allowGaps   bool
	noInvalid   bool
	partial     bool
	requireRate float64
	json        bool
}

// readTotals is what read prints at the end. The counts are grains, or samples of all channels for audio.
type readTotals struct {
	Role     string `json:"role"`
	FlowID   string `json:"flow_id"`
	Format   string `json:"format"`
	Verified uint64 `json:"verified"` // grains or samples with every byte right
	Grains   uint64 `json:"grains"`   // of Verified
	Samples  uint64 `json:"samples"`  // of Verified
	Batches  uint64 `json:"batches"`  // audio: head movements seen
	Partial  uint64 `json:"partial"`  // commits with a part of the slices, with --partial
	Bytes    uint64 `json:"bytes"`    // compared

	Lost uint64 `json:"lost"` // passed over: too late, incomplete, and gaps unless --allow-gaps
	// Gaps were never written in this flow: another index is in the slot, or the head jumped further than there was time
	// to write. On a mirror that may be the origin's doing or the transport's.
	Gaps        uint64 `json:"gaps"`
	Jumps       uint64 `json:"jumps"`
	TooLate     uint64 `json:"too_late"`
	Incomplete  uint64 `json:"incomplete"`
	Invalid     uint64 `json:"invalid"`
	Bad         uint64 `json:"bad"`
	BadGrains   uint64 `json:"bad_grains"`
	BadSamples  uint64 `json:"bad_samples"`
	Overwritten uint64 `json:"overwritten"` // of TooLate: overwritten while they were compared
	FirstBad    string `json:"first_bad"`

	Reopened     uint64   `json:"reopened"`
	HeadWentBack uint64   `json:"head_went_back"`
	Inode        uint64   `json:"inode"`
	Inodes       []uint64 `json:"inodes"`
	FirstIndex   uint64   `json:"first_index"`
	LastIndex    uint64   `json:"last_index"`

	Seconds       float64 `json:"seconds"` // from the first index on
	Rate          float64 `json:"rate"`    // verified a second
	LatencyP50MS  float64 `json:"latency_p50_ms"`
	LatencyP99MS  float64 `json:"latency_p99_ms"`
	LatencyMaxMS  float64 `json:"latency_max_ms"`
	LatencyMeanMS float64 `json:"latency_mean_ms"`
	Ahead         uint64  `json:"ahead"` // seen before their time
	CPUSeconds    float64 `json:"cpu_seconds"`
}

// reader is one run of read.
type reader struct {
	options   readOptions
	terminal  terminal
	domain    *mxl.Domain
	def       *mxl.FlowDef
	totals    readTotals
	latency   latencies
	began     time.Time // first index
	ended     time.Time // newest index
	limit     time.Time // of --duration
	lastHead  uint64
	headSeen  uint64 // TAI ns when lastHead was looked at
	checkedAt time.Time
	commit    uint64 // samples in a commit, as the flow's hint says
}

func runRead(ctx context.Context, args []string, t terminal) error {
	o, err := readArguments(args, t)
	if err != nil {
		return err
	}
	r := reader{options: o, terminal: t, latency: newLatencies(), totals: readTotals{Role: "read", FlowID: o.flow.String()}}
	cpu := cpuSeconds()
	err = r.follow(ctx)
	r.finish(cpuSeconds() - cpu)
	r.totals.print(t, o.json)
	if err != nil {
		return err
	}
	return r.verdict()
}

func readArguments(args []string, t terminal) (readOptions, error) {
	var (
		o  readOptions
		fs = flag.NewFlagSet("read", flag.ContinueOnError)
	)
	fs.DurationVar(&o.wait, "wait", 10*time.Second, "wait this `long` for the flow, also when it was deleted")
	fs.DurationVar(&o.duration, "duration", 0, "read for this `long`, from the first index on; 0: until a signal")
	fs.Uint64Var(&o.count, "count", 0, "read this `many` grains or samples; 0: no limit")
	fs.Uint64Var(&o.behind, "behind", 0, "stay this many `indexes` behind the head")
	fs.BoolVar(&o.allowGaps, "allow-gaps", false, "indexes the writer left unwritten are no loss")
	fs.BoolVar(&o.noInvalid, "no-invalid", false, "invalid grains fail the run")
	fs.BoolVar(&o.partial, "partial", false, "verify slices as they are committed")
	fs.Float64Var(&o.requireRate, "require-rate", 0, "fail below this many verified grains or samples a `second`")
	fs.BoolVar(&o.json, "json", false, "print the totals as one JSON object")
	positional, err := parseArguments(fs, args, t, "read [options] DOMAIN FLOW-ID")
	if err != nil {
		return o, err
	}
	o.domain, o.flow, err = domainAndFlow(positional)
	return o, err
}

// errEnd ends a run as asked.
var errEnd = errors.New("end")

// follow opens the flow, again when it was replaced, until the run ends.
func (r *reader) follow(ctx context.Context) error {
	for {
		if err := r.open(ctx); err != nil {
			return endOf(ctx, err)
		}
		var err error
		if r.def.Format.Continuous() {
			err = r.samples(ctx)
		} else {
			err = r.grains(ctx)
		}
		if !errors.Is(err, mxl.ErrFlowInvalid) {
			return endOf(ctx, err)
		}
		r.totals.Reopened++
	}
}

// endOf turns the ways a run ends as asked into nil.
func endOf(ctx context.Context, err error) error {
	if errors.Is(err, errEnd) || ctx.Err() != nil {
		return nil
	}
	return err
}

// open waits until the flow can be opened and reads its definition.
func (r *reader) open(ctx context.Context) error {
	return awaitFlow(ctx, r.options.wait, r.limit, func() error {
		var err error
		if r.domain, err = mxl.OpenDomain(r.options.domain); err != nil {
			return err
		}
		text, err := r.domain.ReadFlowDef(r.options.flow)
		if err != nil {
			return err
		}
		if r.def, err = mxl.ParseFlowDef(text); err != nil {
			return err
		}
		if info, err := r.domain.FlowInfo(r.options.flow); err != nil {
			return err
		} else if !slices.Contains(r.totals.Inodes, info.Inode) {
			r.totals.Inodes = append(r.totals.Inodes, info.Inode)
			r.totals.Inode, r.commit = info.Inode, uint64(info.MaxCommitBatchSizeHint)
		}
		r.totals.Format = r.def.MediaType
		return nil
	})
}

// awaitFlow calls open until it succeeds, wait is over (its last error), limit has passed (errEnd) or ctx is done.
func awaitFlow(ctx context.Context, wait time.Duration, limit time.Time, open func() error) error {
	deadline := time.Now().Add(wait)
	for {
		err := open()
		if err == nil {
			return nil
		}
		now := time.Now()
		switch {
		case !limit.IsZero() && now.After(limit):
			return errEnd
		case now.After(deadline):
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// goOn says whether the run goes on: errEnd when it has read what was asked for.
func (r *reader) goOn(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if o := &r.options; o.count > 0 && r.totals.Verified+r.totals.Bad >= o.count {
		return errEnd
	}
	if !r.limit.IsZero() && time.Now().After(r.limit) {
		return errEnd
	}
	return nil
}

// started notes the first index of the run: durations count from here.
func (r *reader) started(index uint64) {
	if !r.began.IsZero() {
		return
	}
	r.began = time.Now()
	r.totals.FirstIndex = index
	if r.options.duration > 0 {
		r.limit = r.began.Add(r.options.duration)
	}
}

// headMove classifies the way of the head from last to now: it went back, or the writer jumped further than it can have
// written in the time (TAI ns) between the two looks, in a ring of depth. A first look (last 0) is no move.
func headMove(last, now uint64, lookedAt, at uint64, rate mxl.Rational, depth uint64) (back, jump bool) {
	if last == 0 || now == last {
		return false, false
	}
	if now < last {
		return true, false
	}
	possible := depth + 2
	if at > lookedAt {
		possible += uint64(float64(at-lookedAt) / 1e9 * rate.Float())
	}
	return false, now-last > possible
}

// look takes the head in and returns the next index to read, given the one that was next. next 0 is a reader that has
// not begun: it begins after the head, so that what it reads is fresh; in a flow without a head with its first index.
func (r *reader) look(head, next, depth uint64) uint64 {
	now := mxl.Now()
	back, jump := headMove(r.lastHead, head, r.headSeen, now, r.def.Rate, depth)
	switch {
	case next == 0 && r.headSeen == 0:
		if head != 0 {
			next = r.after(head)
		}
	case next == 0 && head != 0:
		next = r.newest(head)
	case back:
		r.totals.HeadWentBack++
		next = r.after(head)
	case jump:
		r.totals.Jumps++
		if first := r.newest(head); first > next {
			r.gap(first - next)
			next = first
		}
	}
	r.lastHead, r.headSeen = head, now
	return next
}

// after is the first index that is not there yet: a head is the newest grain, but the sample after the newest one.
func (r *reader) after(head uint64) uint64 {
	if r.def.Format.Continuous() {
		return head
	}
	return head + 1
}

// newest is the first index of the newest commit.
func (r *reader) newest(head uint64) uint64 {
	if r.def.Format.Continuous() {
		return head - min(head, r.commit)
	}
	return head
}

// gap counts indexes that were never written.
func (r *reader) gap(n uint64) {
	r.totals.Gaps += n
	if !r.options.allowGaps {
		r.totals.Lost += n
	}
}

// late counts indexes that were overwritten before they were read.
func (r *reader) late(n uint64) {
	r.totals.TooLate += n
	r.totals.Lost += n
}

// bad notes the first fault in words.
func (r *reader) bad(format string, args ...any) {
	if r.totals.FirstBad == "" {
		r.totals.FirstBad = fmt.Sprintf(format, args...)
		fmt.Fprintln(r.terminal.err, "bad:", r.totals.FirstBad)
	}
}

// stillThere asks at most four times a second whether the file was replaced.
func (r *reader) stillThere(check func() error) error {
	if time.Since(r.checkedAt) < 250*time.Millisecond {
		return nil
	}
	r.checkedAt = time.Now()
	return check()
}

func (r *reader) finish(cpu float64) {
	t := &r.totals
	t.Verified = t.Grains + t.Samples
	t.Bad = t.BadGrains + t.BadSamples
	t.CPUSeconds = thousandths(cpu)
	if !r.began.IsZero() {
		end := r.ended
		if r.options.duration > 0 && end.Before(r.limit) && time.Now().After(r.limit) {
			end = r.limit // a flow that stopped has its rate over the whole time
		}
		t.Seconds = end.Sub(r.began).Seconds()
	}
	if t.Seconds > 0 {
		t.Rate = thousandths(float64(t.Verified) / t.Seconds)
	}
	t.LatencyP50MS, t.LatencyP99MS, t.LatencyMaxMS, t.LatencyMeanMS = r.latency.ms(50), r.latency.ms(99), r.latency.maxMS(), r.latency.meanMS()
	t.Ahead = r.latency.ahead
}

// verdict is the exit code in words.
func (r *reader) verdict() error {
	t := &r.totals
	switch {
	case t.Bad > 0:
		return fmt.Errorf("%w: %d bad, first: %s", errVerdict, t.Bad, t.FirstBad)
	case t.Lost > 0:
		return fmt.Errorf("%w: %d lost", errVerdict, t.Lost)
	case t.Verified == 0:
		return fmt.Errorf("%w: nothing was read", errVerdict)
	case r.options.noInvalid && t.Invalid > 0:
		return fmt.Errorf("%w: %d invalid", errVerdict, t.Invalid)
	case t.Rate < r.options.requireRate:
		return fmt.Errorf("%w: %.3f a second, want %.3f", errVerdict, t.Rate, r.options.requireRate)
	}
	return nil
}

// print writes the totals to the terminal.
func (t *readTotals) print(term terminal, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(term.out).Encode(t)
		return
	}
	what := "grains"
	if t.Samples+t.BadSamples > 0 {
		what = "samples"
	}
	fmt.Fprintf(term.out, "flow %s (%s): %d %s verified in %.1f s, %.2f a second, index %d to %d\n", t.FlowID, t.Format,
		t.Verified, what, t.Seconds, t.Rate, t.FirstIndex, t.LastIndex)
	fmt.Fprintf(term.out, "lost %d (too late %d, gaps %d, incomplete %d), bad %d, invalid %d, jumps %d, reopened %d, head went back %d, inodes %v\n",
		t.Lost, t.TooLate, t.Gaps, t.Incomplete, t.Bad, t.Invalid, t.Jumps, t.Reopened, t.HeadWentBack, t.Inodes)
	fmt.Fprintf(term.out, "latency ms: p50 %.3f, p99 %.3f, max %.3f, mean %.3f; %d bytes compared, %.2f s of CPU\n",
		t.LatencyP50MS, t.LatencyP99MS, t.LatencyMaxMS, t.LatencyMeanMS, t.Bytes, t.CPUSeconds)
}

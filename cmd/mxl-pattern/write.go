package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// writeOptions are the options of write.
type writeOptions struct {
	essence essence
	site    site
	hints   mxl.FlowOptions

	duration      time.Duration
	count         uint64 // grains, or samples
	batch         uint64 // samples a commit
	slices        int    // commits a grain
	skipEvery     uint64
	skipLength    uint64
	jumpAt        uint64
	jumpBy        int64
	invalidEvery  uint64
	recreateAfter time.Duration
	fast, keep    bool
	json          bool
}

// writeTotals is what write prints at the end.
type writeTotals struct {
	Role        string  `json:"role"`
	DomainID    string  `json:"domain_id"`
	FlowID      string  `json:"flow_id"`
	Format      string  `json:"format"`
	Grains      uint64  `json:"grains"`
	Samples     uint64  `json:"samples"`
	Commits     uint64  `json:"commits"`
	Bytes       uint64  `json:"bytes"`
	Skipped     uint64  `json:"skipped"`
	Invalid     uint64  `json:"invalid"`
	Jumps       uint64  `json:"jumps"`
	Late        uint64  `json:"late"`
	LateSkipped uint64  `json:"late_skipped"`
	Recreated   uint64  `json:"recreated"`
	Inode       uint64  `json:"inode"`
	FirstIndex  uint64  `json:"first_index"`
	LastIndex   uint64  `json:"last_index"`
	Deleted     bool    `json:"deleted"`
	Seconds     float64 `json:"seconds"`
	CPUSeconds  float64 `json:"cpu_seconds"`
}

func runWrite(ctx context.Context, args []string, t terminal) error {
	o, err := writeArguments(args, t)
	if err != nil {
		return err
	}
	def, err := o.essence.definition()
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	parsed, err := mxl.ParseFlowDef(def)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if err := o.site.prepare(); err != nil {
		return fmt.Errorf("prepare domain: %w", err)
	}
	domain, err := mxl.OpenDomain(o.site.path)
	if err != nil {
		return err
	}
	if o.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.duration)
		defer cancel()
	}
	w := writer{options: o, domain: domain, def: def, parsed: parsed, terminal: t,
		totals: writeTotals{Role: "write", DomainID: o.site.id, FlowID: parsed.ID.String(), Format: o.essence.format}}
	cpu, began := cpuSeconds(), time.Now()
	if parsed.Format.Continuous() {
		err = w.samples(ctx)
	} else {
		err = w.grains(ctx)
	}
	w.totals.Seconds, w.totals.CPUSeconds = time.Since(began).Seconds(), cpuSeconds()-cpu
	w.totals.print(t, o.json)
	return err
}

func writeArguments(args []string, t terminal) (writeOptions, error) {
	var (
		o          writeOptions
		fs         = flag.NewFlagSet("write", flag.ContinueOnError)
		id         = fs.String("flow-id", "", "flow `id`; random when empty")
		rate       = rateValue{50, 1}
		sampleRate = rateValue{48000, 1}
		historyMS  = fs.Uint("history-ms", 0, "ring history in `ms`, written to options.json when that is absent")
		commitHint = fs.Uint("commit-hint", 0, "commit batch hint of a new flow in `units` (slices, samples); 0: as it is written")
		syncHint   = fs.Uint("sync-hint", 0, "sync batch hint of a new flow in `units`; 0: 10 ms of audio, the commit hint otherwise")
	)
	fs.StringVar(&o.essence.format, "format", "v210", "v210, v210a, smpte291 or audio")
	fs.StringVar(&o.essence.label, "flow-label", "mxl-pattern", "`label` of the flow")
	fs.IntVar(&o.essence.width, "width", 1920, "frame width in `pixels`")
	fs.IntVar(&o.essence.height, "height", 1080, "frame height in `lines`")
	fs.StringVar(&o.essence.interlace, "interlace", "progressive", "progressive, tff or bff; --rate is then the frame rate")
	fs.Var(&rate, "rate", "grain `rate`")
	fs.IntVar(&o.essence.channels, "channels", 2, "audio `channels`")
	fs.Var(&sampleRate, "sample-rate", "audio sample `rate`")
	fs.IntVar(&o.essence.bitDepth, "bit-depth", 32, "`bits` of an audio sample, 32 or 64")
	fs.StringVar(&o.site.id, "domain-id", "", "write domain_def.json with this `id` when there is none")
	fs.StringVar(&o.site.label, "label", "", "`label` of the domain")
	fs.DurationVar(&o.site.history, "ring-history", 0, "the same as --history-ms as a `duration`")
	fs.DurationVar(&o.duration, "duration", 0, "write for this `long`; 0: until a signal")
	fs.Uint64Var(&o.count, "count", 0, "write this `many` grains or samples; 0: no limit")
	fs.Uint64Var(&o.batch, "batch", 480, "audio: `samples` a commit")
	fs.IntVar(&o.slices, "slices", 1, "partial `commits` a grain, spread over its period")
	fs.Uint64Var(&o.skipEvery, "skip-every", 0, "after every `n` written indexes (batches) leave --skip-length of them unwritten")
	fs.Uint64Var(&o.skipLength, "skip-length", 1, "unwritten `indexes` (batches)")
	fs.Uint64Var(&o.jumpAt, "jump-at", 0, "after `n` grains (batches) shift all later indexes by --jump-by, once")
	fs.Int64Var(&o.jumpBy, "jump-by", 500, "`indexes` (samples) to jump, may be negative")
	fs.Uint64Var(&o.invalidEvery, "invalid-every", 0, "commit every `n`th grain as invalid")
	fs.DurationVar(&o.recreateAfter, "recreate-after", 0, "after this `long` delete the flow and create it again, once")
	fs.BoolVar(&o.fast, "fast", false, "write as fast as it goes, not at the rate")
	fs.BoolVar(&o.keep, "keep", false, "leave the flow on exit; without it the last writer deletes it, as the SDK does")
	fs.BoolVar(&o.json, "json", false, "print the totals as one JSON object")
	positional, err := parseArguments(fs, args, t, "write [options] DOMAIN")
	if err != nil {
		return o, err
	}
	if len(positional) != 1 {
		return o, fmt.Errorf("%w: want DOMAIN, got %q", errUsage, positional)
	}
	o.site.path = positional[0]
	if *historyMS > 0 {
		o.site.history = time.Duration(*historyMS) * time.Millisecond
	}
	o.essence.id = uuid.New()
	if *id != "" {
		if o.essence.id, err = uuid.Parse(*id); err != nil {
			return o, fmt.Errorf("%w: flow id %q: %w", errUsage, *id, err)
		}
	}
	o.essence.rate = mxl.Rational(rate)
	if o.essence.format == "audio" {
		o.essence.rate = mxl.Rational(sampleRate)
	}
	o.hints = mxl.FlowOptions{MaxCommitBatchSizeHint: uint32(*commitHint), MaxSyncBatchSizeHint: uint32(*syncHint)}
	return o, o.check()
}

func (o *writeOptions) check() error {
	audio := o.essence.format == "audio"
	switch {
	case audio && (o.batch < 1 || o.batch > 1<<20):
		return fmt.Errorf("%w: batch of %d samples", errUsage, o.batch)
	case audio && (o.invalidEvery > 0 || o.slices != 1):
		return fmt.Errorf("%w: audio has no invalid grains and no slices", errUsage)
	case o.slices < 1:
		return fmt.Errorf("%w: %d slices a grain", errUsage, o.slices)
	case o.skipEvery > 0 && o.skipLength == 0:
		return fmt.Errorf("%w: --skip-every without --skip-length", errUsage)
	}
	if audio && o.hints.MaxCommitBatchSizeHint == 0 {
		o.hints.MaxCommitBatchSizeHint = uint32(o.batch)
	}
	if audio && o.hints.MaxSyncBatchSizeHint == 0 {
		// 10 ms, the SDK's default (MXL format reference §3.4), in whole commits.
		commit := uint64(o.hints.MaxCommitBatchSizeHint)
		tenMS := uint64(o.essence.rate.Numerator) / uint64(100*o.essence.rate.Denominator)
		o.hints.MaxSyncBatchSizeHint = uint32(max(1, tenMS/commit) * commit)
	}
	return nil
}

// print writes the totals to the terminal.
func (w *writeTotals) print(t terminal, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(t.out).Encode(w)
		return
	}
	what, n := "grains", w.Grains
	if w.Samples > 0 {
		what, n = "samples", w.Samples
	}
	fmt.Fprintf(t.out, "flow %s: %d %s in %d commits, %.1f s, index %d to %d\n", w.FlowID, n, what, w.Commits, w.Seconds, w.FirstIndex, w.LastIndex)
	fmt.Fprintf(t.out, "skipped %d, invalid %d, jumps %d, late %d (indexes given up: %d), created again %d, deleted on exit %v\n",
		w.Skipped, w.Invalid, w.Jumps, w.Late, w.LateSkipped, w.Recreated, w.Deleted)
}

package mxl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
)

// FlowOptions are the hints a creator may give (MXL format reference §2.4). Zero means the default of §3.4.
type FlowOptions struct {
	MaxCommitBatchSizeHint uint32 // slices, or samples per channel
	MaxSyncBatchSizeHint   uint32 // a multiple of the commit hint

	stored bool // taken from an existing flow, not to be judged
}

// FlowOptionsOf returns options that make a new flow carry exactly the hints of an existing one, also where the rules for
// options would refuse them (defaults that were not checked against each other).
func FlowOptionsOf(info FlowInfo) FlowOptions {
	return FlowOptions{info.MaxCommitBatchSizeHint, info.MaxSyncBatchSizeHint, true}
}

// Validate checks that the sync hint is a multiple of the commit hint when both are given.
func (o FlowOptions) Validate() error {
	commit, sync := o.MaxCommitBatchSizeHint, o.MaxSyncBatchSizeHint
	if !o.stored && commit != 0 && sync%commit != 0 {
		return fmt.Errorf("%w: flow options: maxSyncBatchSizeHint %d is not a multiple of maxCommitBatchSizeHint %d",
			ErrInvalidArgument, sync, commit)
	}
	return nil
}

// hints returns what is stored for a flow.
func (o FlowOptions) hints(d *FlowDef) (commit, sync uint32) {
	byDefault := uint32(d.TotalSlices())
	if d.Format.Continuous() {
		// 10 ms (MXL format reference §3.4); 0 at rates below 100, which counts as 1 (§8).
		byDefault = uint32(min(d.Rate.Numerator/100/d.Rate.Denominator, math.MaxUint32))
	}
	commit, sync = o.MaxCommitBatchSizeHint, o.MaxSyncBatchSizeHint
	if commit == 0 {
		commit = byDefault
	}
	if sync == 0 {
		sync = byDefault
	}
	return commit, sync
}

// ParseFlowOptions parses the JSON form; empty text means defaults. Errors wrap ErrInvalidArgument.
func ParseFlowOptions(text []byte) (FlowOptions, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return FlowOptions{}, nil
	}
	var m members
	if err := json.Unmarshal(text, &m); err != nil || m == nil {
		return FlowOptions{}, fmt.Errorf("%w: flow options are not a JSON object", ErrInvalidArgument)
	}
	var o FlowOptions
	for _, f := range []struct {
		name string
		hint *uint32
	}{{"maxCommitBatchSizeHint", &o.MaxCommitBatchSizeHint}, {"maxSyncBatchSizeHint", &o.MaxSyncBatchSizeHint}} {
		if !m.has(f.name) {
			continue
		}
		v, ok := number(m[f.name])
		if v = math.Trunc(v); !ok || v < 1 || v > math.MaxUint32 {
			return FlowOptions{}, fmt.Errorf("%w: flow options: %s is %s, want a number from 1", ErrInvalidArgument, f.name,
				shorten(m[f.name]))
		}
		*f.hint = uint32(v)
	}
	return o, o.Validate()
}

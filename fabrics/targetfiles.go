package fabrics

import (
	"errors"
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// ErrMirrorLost says that what the writer of a mirror flow has mapped is not the flow's
// files any more: somebody truncated or removed one. Pages of the mapping may have
// been replaced by ones that no reader sees, so the writer is of no use from then on,
// also when the files have their length back.
var ErrMirrorLost = errors.New("the mirror's files were truncated or removed")

// mappedFiles is the part of either writer that looks at its files.
type mappedFiles interface {
	CheckFile(number int) error
	CheckFiles() error
}

func (c *TargetConfig) files() mappedFiles {
	if c.Discrete != nil {
		return c.Discrete
	}
	return c.Continuous
}

// mirrorLost turns a complaint about a flow's files into ErrMirrorLost. What only could
// not be looked at is not lost.
func mirrorLost(err error) error {
	if errors.Is(err, mxl.ErrFlowInvalid) {
		return fmt.Errorf("%w: %w", ErrMirrorLost, err)
	}
	return nil
}

// CheckMirror compares every file of the mirror with what is mapped of it:
// ErrMirrorLost, or nil. It costs one stat a file and does not disturb the lane, but
// must not be called after Close.
func (t *Target) CheckMirror() error { return mirrorLost(t.lane.cfg.files().CheckFiles()) }

// CheckMirrorFile is CheckMirror for one file of the ring, another one each time.
func (t *Target) CheckMirrorFile() error {
	return mirrorLost(t.lane.cfg.files().CheckFile(int(t.look.Add(1) % maxRegions)))
}

// noteLost keeps that err is a fault in the mirror's memory.
func (l *targetLane) noteLost(err error) {
	if errors.Is(err, ofi.ErrMappingLost) || errors.Is(err, mxl.ErrFlowInvalid) {
		l.numbers.mirrorLost.Store(true)
	}
}

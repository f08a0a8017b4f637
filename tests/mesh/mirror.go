package mesh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Mirrored waits until B has the flow's mirror on disk.
func (m *Mesh) Mirrored(ctx context.Context, f Flow, limit time.Duration) error {
	return Eventually(ctx, limit, "mirror of flow "+f.Name+" at "+m.B.HostID, func() error {
		mirror, err := m.OpenMirror(m.B, f)
		if err != nil {
			return err
		}
		return mirror.Close()
	})
}

// OpenMirror opens a host's mirror of a discrete flow for reading.
func (m *Mesh) OpenMirror(on *Agent, f Flow) (*mxl.DiscreteReader, error) {
	domain, err := mxl.OpenDomain(on.MirrorDomain(f.DomainID))
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(f.ID)
	if err != nil {
		return nil, err
	}
	return domain.OpenDiscreteReader(id)
}

// NextGrain waits until a complete grain later than head can be read.
func NextGrain(ctx context.Context, ring *mxl.DiscreteReader, head uint64, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for ctx.Err() == nil {
		seen := ring.Sync()
		if now := ring.Head(); now > head {
			_, err := ring.Grain(now, mxl.AllSlices)
			if err == nil {
				return nil
			}
			if !errors.Is(err, mxl.ErrTooEarly) && !errors.Is(err, mxl.ErrTooLate) {
				return err
			}
		}
		if _, err := ring.WaitSync(seen, 50*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("no grain after index %d within %v", head, limit)
}

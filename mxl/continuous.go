package mxl

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// ContinuousReader reads samples. It holds no lock and keeps no writer waiting. One goroutine at a time; Close must not
// run while another method does.
type ContinuousReader struct{ sampleRing }

// OpenContinuousReader opens a flow of samples for reading. Errors as OpenDiscreteReader.
func (d *Domain) OpenContinuousReader(id uuid.UUID) (*ContinuousReader, error) {
	files, err := d.openFiles(id, false)
	defer files.close()
	if err != nil {
		return nil, err
	}
	if !files.info.Format.Continuous() {
		return nil, fmt.Errorf("%w: flow %v is %v, not continuous", ErrInvalidFlowReader, id, files.info.Format)
	}
	if _, err := files.openChannels(); err != nil {
		return nil, err
	}
	r := &ContinuousReader{}
	if err := r.mapRing(&files); err != nil {
		return nil, err
	}
	return r, nil
}

// Samples returns the window of the count samples that end just before index, when all of them are in the readable half
// of the ring. Errors: ErrTooEarly, ErrTooLate, and ErrFlowInvalid where it would otherwise be too early but the flow was
// replaced. It allocates nothing.
func (r *ContinuousReader) Samples(index, count uint64) (Window, error) {
	w, err := r.look(index, count)
	if err == ErrTooEarly {
		if invalid := r.Check(); invalid != nil {
			return w, invalid
		}
	}
	return w, err
}

func (r *ContinuousReader) look(index, count uint64) (w Window, err error) {
	if r.closed() {
		return w, ErrInvalidFlowReader
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	if err := samplesStatus(index, count, atomic.LoadUint64(r.head), r.BufferLength()); err != nil {
		return w, err
	}
	return r.Window(index, count), nil
}

// WaitSamples is Samples that waits while it is too early, at most timeout. A writer wakes once in a sync batch only, so
// the head is looked at again at least that often.
func (r *ContinuousReader) WaitSamples(index, count uint64, timeout time.Duration) (w Window, err error) {
	err = r.await(timeout, func() error {
		w, err = r.Samples(index, count)
		return err
	})
	return w, err
}

// Read copies the count samples that end just before index into dst, channel after channel (count*WordSize bytes each),
// and makes sure that they were not overwritten meanwhile (ErrTooLate). Other errors as Samples; ErrInvalidArgument when
// dst is too short.
func (r *ContinuousReader) Read(dst []byte, index, count uint64) error {
	w, err := r.Samples(index, count)
	if err != nil {
		return err
	}
	bytes := int(count) * r.word
	if need := bytes * r.ChannelCount(); len(dst) < need {
		return fmt.Errorf("%w: %d bytes for %d samples of %d bytes in %d channels", ErrInvalidArgument, len(dst), count,
			r.word, r.ChannelCount())
	}
	for c := range r.ChannelCount() {
		if err := r.copyChannel(dst[c*bytes:], w, c); err != nil {
			return err
		}
	}
	r.barrier()
	_, err = r.look(index, count)
	if err == ErrTooEarly {
		return nil // the head went back, the samples are still those of the window
	}
	return err
}

func (r *ContinuousReader) copyChannel(dst []byte, w Window, channel int) (err error) {
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	first, second := r.Segments(w, channel)
	copy(dst, first)
	copy(dst[len(first):], second)
	return nil
}

// Close unmaps the flow. It may be called again.
func (r *ContinuousReader) Close() error {
	r.unmapRing()
	return nil
}

// ContinuousWriter writes samples. It holds the shared lock that tells the flow is active. One goroutine at a time; Close
// must not run while another method does.
type ContinuousWriter struct {
	sampleRing
	files flowFiles
	rule  wakeRule
}

// OpenSamples returns where to put the count samples that end just before index, in each channel of Channels.
// ErrInvalidArgument when count is 0 or more than MaxCount. No field is touched.
func (w *ContinuousWriter) OpenSamples(index, count uint64) (Window, error) {
	if w.closed() {
		return Window{}, ErrInvalidFlowWriter
	}
	if count == 0 || count > w.MaxCount() {
		return Window{}, fmt.Errorf("%w: window of %d samples, want 1 to %d", ErrInvalidArgument, count, w.MaxCount())
	}
	return w.Window(index, count), nil
}

// Commit publishes the samples before index, the last count of which are new, and wakes readers when the sync batch rule
// says so (MXL format reference §8). It needs no OpenSamples: samples may have been put into Channels directly.
// ErrInvalidArgument when count is more than MaxCount. It allocates nothing.
func (w *ContinuousWriter) Commit(index, count uint64) (err error) {
	if w.closed() {
		return ErrInvalidFlowWriter
	}
	if count > w.MaxCount() || index == UndefinedIndex {
		return fmt.Errorf("%w: commit of %d samples at %d, want at most %d", ErrInvalidArgument, count, index, w.MaxCount())
	}
	defer recoverFault(debug.SetPanicOnFault(true), &err)
	w.barrier() // samples before the head
	atomic.StoreUint64(w.head, index)
	if w.rule.commit(index) {
		w.wake()
	}
	return nil
}

// WakeRule tells which commits wake readers, for commits that are made outside Go by HeadWord and SyncWord: one in each
// batch of that many samples, when it is more than early samples into it. woken is how far that has come, for both to
// keep (MXL format reference §8).
func (w *ContinuousWriter) WakeRule() (batch, early uint64, woken *uint64) {
	return w.rule.sync, w.rule.early, &w.rule.last
}

// Close lets go of the flow and keeps its files. It may be called again.
func (w *ContinuousWriter) Close() error {
	w.unmapRing()
	w.files.close()
	return nil
}

// Release closes the writer and deletes the flow when no other writer holds it, as the SDK does when a writer is released.
func (w *ContinuousWriter) Release() (deleted bool, err error) {
	if w.closed() {
		return false, nil
	}
	deleted, err = w.files.removeIfLast()
	return deleted, firstError(err, w.Close())
}

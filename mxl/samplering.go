package mxl

import (
	"fmt"
	"path/filepath"
)

// Window is a run of samples in a ring, the same for every channel: First samples from slot Start, then Second samples
// from slot 0 (MXL format reference §8).
type Window struct{ Start, First, Second uint64 }

// windowOf returns where the count samples that end just before sample number index live in a ring of length samples.
func windowOf(index, count, length uint64) Window {
	if count == 0 || count > length {
		return Window{Start: index % length}
	}
	start := (index%length + length - count) % length
	first := min(count, length-start)
	return Window{Start: start, First: first, Second: count - first}
}

// sampleRing is the mapped ring of a continuous flow.
type sampleRing struct {
	flow
	channels []byte
	word     int
}

func (r *sampleRing) mapRing(files *flowFiles) error {
	if err := r.mapData(files); err != nil {
		return err
	}
	mem, err := mapFile(files.ring[0].fd, files.ring[0].size, files.write)
	if err != nil {
		r.unmapData()
		return fmt.Errorf("mxl: %s: %w", filepath.Join(files.dir, nameChannels), err)
	}
	r.channels, r.word = mem, files.word
	return nil
}

func (r *sampleRing) unmapRing() {
	unmap(&r.channels)
	r.unmapData()
}

// Channels returns the whole mapped ring: the sample in slot s of channel c is at byte (c*BufferLength+s)*WordSize. It is
// nil after Close.
func (r *sampleRing) Channels() []byte { return r.channels }

// ChannelCount returns the channels.
func (r *sampleRing) ChannelCount() int { return int(r.info.ChannelCount) }

// BufferLength returns the samples per channel in the ring.
func (r *sampleRing) BufferLength() uint64 { return uint64(r.info.BufferLength) }

// MaxCount returns the longest window in samples, half the ring: the other half is where the writer may be working.
func (r *sampleRing) MaxCount() uint64 { return r.BufferLength() / 2 }

// WordSize returns the bytes of a sample, 4 or 8.
func (r *sampleRing) WordSize() int { return r.word }

// Window returns where the count samples that end just before sample number index live. A count of 0 or more than the
// ring gives an empty window.
func (r *sampleRing) Window(index, count uint64) Window {
	return windowOf(index, count, r.BufferLength())
}

// Segments returns the two parts of a window in one channel; the second is empty unless the window wraps.
func (r *sampleRing) Segments(w Window, channel int) (first, second []byte) {
	base := uint64(channel) * r.BufferLength()
	word := uint64(r.word)
	first = r.channels[(base+w.Start)*word : (base+w.Start+w.First)*word]
	second = r.channels[base*word : (base+w.Second)*word]
	return first, second
}

// samplesStatus decides whether a reader gets a window: nil, ErrTooEarly or ErrTooLate (MXL format reference §8).
func samplesStatus(index, count, head, length uint64) error {
	if index > head {
		return ErrTooEarly
	}
	oldest := uint64(0)
	if head >= length/2 {
		oldest = head - length/2
	}
	if index < oldest || index-oldest < count {
		return ErrTooLate
	}
	return nil
}

// wakeRule decides which commits of a continuous flow wake readers: about one in each sync batch
// (MXL format reference §8).
type wakeRule struct {
	sync, early uint64
	last        uint64
}

func newWakeRule(syncHint, commitHint uint32) wakeRule {
	s, c := uint64(max(syncHint, 1)), uint64(max(commitHint, 1))
	r := wakeRule{sync: s}
	if s >= c {
		r.early = s - c
	}
	return r
}

// commit reports whether a commit at a head wakes.
func (r *wakeRule) commit(head uint64) bool {
	cur := head / r.sync
	switch {
	case cur < r.last:
		return false
	case cur == r.last:
		if head%r.sync <= r.early {
			return false
		}
		r.last = cur + 1
	default:
		r.last = cur
	}
	return true
}

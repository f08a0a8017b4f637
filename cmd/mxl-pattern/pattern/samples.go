package pattern

import (
	"encoding/binary"
	"math"

	"github.com/google/uuid"
)

// Samples is the payload of one continuous flow: 24-bit noise in -1 … +1, another sequence for every channel.
type Samples struct{ flow uint64 }

// NewSamples returns the samples of flow id.
func NewSamples(id uuid.UUID) Samples { return Samples{flow: flowHash(id)} }

// Value is the sample with absolute number of channel (from 0), a multiple of 2^-23 in [-1, 1), exact in float32.
func (s Samples) Value(channel int, number uint64) float32 {
	return value(s.seed(channel) + number*step)
}

// Fill32 writes consecutive little-endian float32 samples of channel, from absolute number on, into dst, whose
// length must be a multiple of 4.
func (s Samples) Fill32(dst []byte, channel int, number uint64) {
	x := s.seed(channel) + number*step
	for len(dst) >= 4 {
		binary.LittleEndian.PutUint32(dst, math.Float32bits(value(x)))
		x += step
		dst = dst[4:]
	}
}

// Fill64 is Fill32 for float64 samples.
func (s Samples) Fill64(dst []byte, channel int, number uint64) {
	x := s.seed(channel) + number*step
	for len(dst) >= 8 {
		binary.LittleEndian.PutUint64(dst, math.Float64bits(float64(value(x))))
		x += step
		dst = dst[8:]
	}
}

// Check32 compares the float32 samples in src with channel's from absolute number on, bit by bit. It returns the
// position of the first wrong sample at or after from, or -1.
func (s Samples) Check32(src []byte, channel int, number uint64, from int) int {
	x := s.seed(channel) + (number+uint64(from))*step
	for i := from; (i+1)*4 <= len(src); i++ {
		if binary.LittleEndian.Uint32(src[i*4:]) != math.Float32bits(value(x)) {
			return i
		}
		x += step
	}
	return -1
}

// Check64 is Check32 for float64 samples.
func (s Samples) Check64(src []byte, channel int, number uint64, from int) int {
	x := s.seed(channel) + (number+uint64(from))*step
	for i := from; (i+1)*8 <= len(src); i++ {
		if binary.LittleEndian.Uint64(src[i*8:]) != math.Float64bits(float64(value(x))) {
			return i
		}
		x += step
	}
	return -1
}

func (s Samples) seed(channel int) uint64 { return finalise(s.flow + finalise(uint64(channel)+mulB)) }

// value takes the top 24 bits of the mixed word as a signed integer.
func value(x uint64) float32 {
	x ^= x >> 32
	x *= mulA
	return float32(int32(x>>32)>>8) / (1 << 23)
}

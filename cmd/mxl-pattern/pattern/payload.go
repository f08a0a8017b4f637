// Package pattern computes the payload that mxl-pattern writes and verifies.
//
// Every byte is a pure function of the flow id, the index and the byte offset (grains) or of the flow id, the
// channel and the sample number (audio). A reader on another host needs nothing but the flow id to check all of it,
// and a byte of another index, another flow or another offset does not pass.
package pattern

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// Odd 64-bit multipliers with well spread bits: the golden ratio (Weyl sequence step) and two of the constants of
// Stafford's mix 13, which is the finaliser of SplitMix64.
const (
	step = 0x9E3779B97F4A7C15
	mulA = 0xBF58476D1CE4E5B9
	mulB = 0x94D049BB133111EB
)

// Multiples of step modulo 2^64, for the unrolled loops.
const (
	step2 = 0x3c6ef372fe94f82a
	step3 = 0xdaa66d2c7ddf743f
	step4 = 0x78dde6e5fd29f054
	step5 = 0x1715609f7c746c69
	step6 = 0xb54cda58fbbee87e
	step7 = 0x538454127b096493
	step8 = 0xf1bbcdcbfa53e0a8
)

// HeaderSize is the length in bytes of the stamp at the start of every grain payload: the index as a little-endian
// u64, then the flow's hash as a little-endian u64.
const HeaderSize = 16

// V210Mask clears the two unused top bits of every 32-bit word, as v210 and the v210a key want it.
const V210Mask = 0x3FFFFFFF3FFFFFFF

// Grains is the payload of one discrete flow. The zero value is not useful; use NewGrains.
type Grains struct {
	flow uint64
	mask uint64
}

// NewGrains returns the payload of flow id. The words after the stamp are masked with mask: V210Mask for video,
// ^uint64(0) where every bit may be used.
func NewGrains(id uuid.UUID, mask uint64) Grains { return Grains{flow: flowHash(id), mask: mask} }

// Hash is the value that the stamp carries for the flow.
func (g Grains) Hash() uint64 { return g.flow }

// Fill writes the payload of index, from byte offset on, into dst.
func (g Grains) Fill(dst []byte, index uint64, offset int) {
	seed := g.seed(index)
	for len(dst) > 0 && (offset%8 != 0 || offset < HeaderSize) {
		n := fillWord(dst, g.word(seed, index, offset), offset%8)
		offset, dst = offset+n, dst[n:]
	}
	x := seed + uint64(offset/8)*step
	for len(dst) >= 64 {
		b := dst[:64:64]
		binary.LittleEndian.PutUint64(b[0:], mix(x)&g.mask)
		binary.LittleEndian.PutUint64(b[8:], mix(x+step)&g.mask)
		binary.LittleEndian.PutUint64(b[16:], mix(x+step2)&g.mask)
		binary.LittleEndian.PutUint64(b[24:], mix(x+step3)&g.mask)
		binary.LittleEndian.PutUint64(b[32:], mix(x+step4)&g.mask)
		binary.LittleEndian.PutUint64(b[40:], mix(x+step5)&g.mask)
		binary.LittleEndian.PutUint64(b[48:], mix(x+step6)&g.mask)
		binary.LittleEndian.PutUint64(b[56:], mix(x+step7)&g.mask)
		x += step8
		offset, dst = offset+64, dst[64:]
	}
	for len(dst) > 0 {
		n := fillWord(dst, g.word(seed, index, offset), offset%8)
		offset, dst = offset+n, dst[n:]
	}
}

// Check compares src with the payload of index from byte offset on and returns the position within src of the first
// byte that differs, or -1 when all of them match.
func (g Grains) Check(src []byte, index uint64, offset int) int {
	seed := g.seed(index)
	done := 0
	for done < len(src) && ((offset+done)%8 != 0 || offset+done < HeaderSize) {
		n, bad := checkWord(src[done:], g.word(seed, index, offset+done), (offset+done)%8)
		if bad >= 0 {
			return done + bad
		}
		done += n
	}
	x := seed + uint64((offset+done)/8)*step
	for len(src)-done >= 64 {
		b := src[done : done+64 : done+64]
		diff := binary.LittleEndian.Uint64(b[0:]) ^ mix(x)&g.mask
		diff |= binary.LittleEndian.Uint64(b[8:]) ^ mix(x+step)&g.mask
		diff |= binary.LittleEndian.Uint64(b[16:]) ^ mix(x+step2)&g.mask
		diff |= binary.LittleEndian.Uint64(b[24:]) ^ mix(x+step3)&g.mask
		diff |= binary.LittleEndian.Uint64(b[32:]) ^ mix(x+step4)&g.mask
		diff |= binary.LittleEndian.Uint64(b[40:]) ^ mix(x+step5)&g.mask
		diff |= binary.LittleEndian.Uint64(b[48:]) ^ mix(x+step6)&g.mask
		diff |= binary.LittleEndian.Uint64(b[56:]) ^ mix(x+step7)&g.mask
		if diff != 0 {
			break // the loop below finds the byte
		}
		x += step8
		done += 64
	}
	for done < len(src) {
		n, bad := checkWord(src[done:], g.word(seed, index, offset+done), (offset+done)%8)
		if bad >= 0 {
			return done + bad
		}
		done += n
	}
	return -1
}

// Stamp reads the stamp at the start of a payload: the index it was written for and whether it is of this flow.
// ok is false when payload is shorter than HeaderSize.
func (g Grains) Stamp(payload []byte) (index uint64, ours, ok bool) {
	if len(payload) < HeaderSize {
		return 0, false, false
	}
	return binary.LittleEndian.Uint64(payload), binary.LittleEndian.Uint64(payload[8:]) == g.flow, true
}

// word is the aligned 8 bytes around offset of index, as a little-endian u64.
func (g Grains) word(seed, index uint64, offset int) uint64 {
	switch offset / 8 {
	case 0:
		return index
	case 1:
		return g.flow
	}
	return mix(seed+uint64(offset/8)*step) & g.mask
}

// fillWord writes the bytes of w from byte skip on, as many as dst takes.
func fillWord(dst []byte, w uint64, skip int) int {
	n := min(8-skip, len(dst))
	for i := range n {
		dst[i] = byte(w >> (8 * (skip + i)))
	}
	return n
}

// checkWord compares what fillWord would write; bad is the position of the first difference or -1.
func checkWord(src []byte, w uint64, skip int) (n, bad int) {
	n = min(8-skip, len(src))
	for i := range n {
		if src[i] != byte(w>>(8*(skip+i))) {
			return n, i
		}
	}
	return n, -1
}

func (g Grains) seed(index uint64) uint64 { return finalise(g.flow ^ finalise(index+step)) }

// mix spreads a Weyl sequence well enough for a test pattern with one multiplication a word.
func mix(x uint64) uint64 {
	x ^= x >> 32
	x *= mulA
	return x ^ x>>29
}

// finalise is the finaliser of SplitMix64: every input bit reaches every output bit.
func finalise(x uint64) uint64 {
	x = (x ^ x>>30) * mulA
	x = (x ^ x>>27) * mulB
	return x ^ x>>31
}

func flowHash(id uuid.UUID) uint64 {
	return finalise(binary.LittleEndian.Uint64(id[0:8]) ^ finalise(binary.LittleEndian.Uint64(id[8:16])+step))
}

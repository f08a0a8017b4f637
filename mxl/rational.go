package mxl

import (
	"fmt"
	"math/bits"
)

// UndefinedIndex is the index of a rate with a zero numerator or denominator.
const UndefinedIndex = ^uint64(0)

const nanosPerSecond = 1_000_000_000

// Rational is a grain or sample rate in units per second.
type Rational struct {
	Numerator   int64 `json:"numerator"`
	Denominator int64 `json:"denominator"`
}

// Valid reports whether the rate is positive.
func (r Rational) Valid() bool { return r.Numerator > 0 && r.Denominator > 0 }

// String returns "50/1".
func (r Rational) String() string { return fmt.Sprintf("%d/%d", r.Numerator, r.Denominator) }

// Float returns the rate as a floating-point number, 0 for an invalid rate.
func (r Rational) Float() float64 {
	if !r.Valid() {
		return 0
	}
	return float64(r.Numerator) / float64(r.Denominator)
}

// Reduced returns the rate divided by its greatest common divisor.
func (r Rational) Reduced() Rational {
	a, b := r.Numerator, r.Denominator
	for b != 0 {
		a, b = b, a%b
	}
	if a < 0 {
		a = -a
	}
	if a <= 1 {
		return r
	}
	return Rational{r.Numerator / a, r.Denominator / a}
}

// IndexAt returns the index that is current at a TAI time in nanoseconds, rounded half up
// (MXL format reference §5). A rate that is not positive yields UndefinedIndex.
func (r Rational) IndexAt(tai uint64) uint64 {
	if !r.Valid() {
		return UndefinedIndex
	}
	hi, lo := bits.Mul64(tai, uint64(r.Numerator))
	hh, hl := bits.Mul64(uint64(r.Denominator), nanosPerSecond/2)
	lo, carry := bits.Add64(lo, hl, 0)
	hi, _ = bits.Add64(hi, hh, carry)
	dh, dl := bits.Mul64(uint64(r.Denominator), nanosPerSecond)
	return quotient128(hi, lo, dh, dl)
}

// TimeOf returns the TAI time in nanoseconds of an index, rounded half up (MXL format reference §5). A rate that is not
// positive yields UndefinedIndex, except for index 0 (as the SDK's vectors have it).
func (r Rational) TimeOf(index uint64) uint64 {
	if index == 0 {
		return 0
	}
	if !r.Valid() {
		return UndefinedIndex
	}
	// index*den*1e9 may need more than 128 bits for absurd rates; media rates stay far below.
	ph, pl := bits.Mul64(uint64(r.Denominator), nanosPerSecond)
	if ph != 0 {
		return UndefinedIndex
	}
	hi, lo := bits.Mul64(index, pl)
	lo, carry := bits.Add64(lo, uint64(r.Numerator)/2, 0)
	hi += carry
	return quotient128(hi, lo, 0, uint64(r.Numerator))
}

// NanosUntil returns how long after now (TAI ns) the time of an index is, 0 when it has passed.
func (r Rational) NanosUntil(index, now uint64) uint64 {
	t := r.TimeOf(index)
	if t == UndefinedIndex || t <= now {
		return 0
	}
	return t - now
}

// quotient128 divides two 128-bit numbers and keeps the low 64 bits of the quotient.
func quotient128(nh, nl, dh, dl uint64) uint64 {
	if dh == 0 {
		q, _ := bits.Div64(nh%dl, nl, dl)
		return q
	}
	// The divisor has more than 64 bits, so the quotient has fewer than 64: shift and subtract.
	var q uint64
	shift := bits.LeadingZeros64(dh) - bits.LeadingZeros64(nh)
	if nh == 0 || shift < 0 {
		return 0
	}
	for s := shift; s >= 0; s-- {
		sh, sl := shiftLeft128(dh, dl, uint(s))
		if nh > sh || (nh == sh && nl >= sl) {
			var borrow uint64
			nl, borrow = bits.Sub64(nl, sl, 0)
			nh, _ = bits.Sub64(nh, sh, borrow)
			q |= 1 << uint(s)
		}
	}
	return q
}

func shiftLeft128(h, l uint64, s uint) (uint64, uint64) {
	if s == 0 {
		return h, l
	}
	return h<<s | l>>(64-s), l << s
}

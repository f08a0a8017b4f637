package mxl

import "math/bits"

// ancillarySlices is the size of a video/smpte291 grain: slices of one byte (MXL format reference §3.1).
const ancillarySlices = 4096

const pageSize = 4096

// SliceSizes returns the bytes of one slice (a line, or a byte of ancillary data) in each plane; zero for audio. v210a has
// the fill in plane 0 and the key in plane 1 (MXL format reference §3.1).
func (d *FlowDef) SliceSizes() [4]uint32 {
	w := uint32(d.Width)
	switch d.MediaType {
	case MediaV210:
		return [4]uint32{(w + 47) / 48 * 128}
	case MediaV210A:
		return [4]uint32{(w + 47) / 48 * 128, (w + 2) / 3 * 4}
	case MediaSMPTE291:
		return [4]uint32{1}
	}
	return [4]uint32{}
}

// TotalSlices returns the slices of a grain: lines of the frame or field, 4096 for ancillary data; 0 for audio.
func (d *FlowDef) TotalSlices() int {
	switch {
	case d.Format == FormatData:
		return ancillarySlices
	case d.Interlaced():
		return d.Height / 2
	}
	return d.Height
}

// PayloadSize returns the payload bytes of a grain; 0 for audio.
func (d *FlowDef) PayloadSize() int { return int(lineBytes(d.SliceSizes())) * d.TotalSlices() }

// WordSize returns the bytes of a sample; 0 unless audio.
func (d *FlowDef) WordSize() int { return d.BitDepth / 8 }

// RingDepth returns the slots of a discrete ring, or the samples per channel of a continuous one, for a history in
// nanoseconds (MXL format reference §3.2, §3.3). It can be 0.
func (d *FlowDef) RingDepth(historyNS uint64) uint64 {
	if !d.Rate.Valid() {
		return 0
	}
	if d.Format.Discrete() {
		return scaled(historyNS, d.Rate, nanosPerSecond)
	}
	// Twice the history: only half the ring may be read or written at a time. A channel starts on a page boundary.
	page := uint64(pageSize / d.WordSize())
	raw := scaled(historyNS, d.Rate, nanosPerSecond/2)
	if raw > 1<<62 {
		return raw
	}
	return (raw + page - 1) / page * page
}

// scaled returns t*num/(unit*den) in 128 bits, the largest number when it does not fit.
func scaled(t uint64, r Rational, unit uint64) uint64 {
	hi, lo := bits.Mul64(t, uint64(r.Numerator))
	dh, dl := bits.Mul64(uint64(r.Denominator), unit)
	if dh == 0 && hi >= dl {
		return UndefinedIndex
	}
	return quotient128(hi, lo, dh, dl)
}

// RequiredBytes returns the bytes that all files of a new flow take in the file system, in whole pages.
func RequiredBytes(d *FlowDef, historyNS uint64) uint64 {
	files := pages(dataFileSize) + pages(uint64(len(d.Raw)))
	depth := d.RingDepth(historyNS)
	per := uint64(d.ChannelCount) * uint64(d.WordSize())
	if d.Format.Discrete() {
		per = pages(PayloadOffset + uint64(d.PayloadSize()))
	}
	hi, ring := bits.Mul64(depth, per)
	if hi != 0 {
		return UndefinedIndex
	}
	return files + pages(ring)
}

func pages(n uint64) uint64 { return (n + pageSize - 1) / pageSize * pageSize }

// geometryDifference names the fields of the header that make two flows carry different essence.
func geometryDifference(a, b FlowInfo) []string {
	var names []string
	add := func(differ bool, name string) {
		if differ {
			names = append(names, name)
		}
	}
	add(a.ID != b.ID, "id")
	add(a.Format != b.Format, "format")
	add(a.Rate.Reduced() != b.Rate.Reduced(), rateMember(b.Format))
	add(a.SliceSizes != b.SliceSizes, "sliceSizes")
	add(a.ChannelCount != b.ChannelCount, "channel_count")
	return names
}

func rateMember(f Format) string {
	if f.Continuous() {
		return "sample_rate"
	}
	return "grain_rate"
}

package fabrics

import "fmt"

// flowShape is what both ends of a transfer must agree on. Exactly one of the two
// is set. It does not change while a source lives: an origin that comes back in
// another shape is an error.
type flowShape struct {
	discrete bool
	grains   grainGeometry
	samples  sampleGeometry
}

// accepts says what in a TargetInfo does not fit a flow of this shape that is sent
// over provider.
func (f flowShape) accepts(t TargetInfo, provider Provider) error {
	if t.Provider != string(provider) && t.Provider != "unknown" {
		return fieldError("provider", "%s, this source sends over %s", t.Provider, provider)
	}
	if _, err := t.AddrPort(); err != nil {
		return err
	}
	if len(t.Regions) == 0 {
		return fieldError("regions", "none")
	}
	if f.discrete {
		return f.acceptsGrains(t)
	}
	return f.acceptsSamples(t)
}

func (f flowShape) acceptsGrains(t TargetInfo) error {
	if t.Bounce != nil {
		return fieldError("bounceBufferInfo", "given for a discrete flow")
	}
	for i, r := range t.Regions {
		if r.Len != f.grains.regionLen() {
			return fieldError(fmt.Sprintf("regions[%d].len", i), "%d, the flow's grain files have %d bytes", r.Len, f.grains.regionLen())
		}
	}
	return nil
}

func (f flowShape) acceptsSamples(t TargetInfo) error {
	if t.Bounce == nil {
		return fieldError("bounceBufferInfo", "is missing for a continuous flow")
	}
	if t.Bounce.EntryCount != uint64(len(t.Regions)) {
		return fieldError("bounceBufferInfo.entryCount", "%d with %d regions", t.Bounce.EntryCount, len(t.Regions))
	}
	if f.samples.entryFrames(t.Bounce.EntrySize) == 0 || t.Bounce.EntrySize > maxEntry {
		return fieldError("bounceBufferInfo.entrySize", "%d bytes, a sample of all channels has %d", t.Bounce.EntrySize, f.samples.frame())
	}
	for i, r := range t.Regions {
		if r.Len < t.Bounce.EntrySize {
			return fieldError(fmt.Sprintf("regions[%d].len", i), "%d, less than the entry size %d", r.Len, t.Bounce.EntrySize)
		}
	}
	return nil
}

// maxEntry bounds the memory a peer can make a source set aside for one batch.
const maxEntry = 64 << 20

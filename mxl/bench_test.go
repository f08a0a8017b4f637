package mxl

import "testing"

func BenchmarkHead(b *testing.B) {
	d := newDomain(b, 0)
	w := newGrainWriter(b, d, dataDef(50, 1))
	for b.Loop() {
		_ = w.Head()
	}
}

func BenchmarkHeader(b *testing.B) {
	d := newDomain(b, 0)
	w := newGrainWriter(b, d, dataDef(50, 1))
	for b.Loop() {
		_ = w.Header(3)
	}
}

func BenchmarkCommitSlot(b *testing.B) {
	d := newDomain(b, 0)
	w := newGrainWriter(b, d, dataDef(50, 1))
	write(b, w, 7, 1)
	for b.Loop() {
		if _, err := w.CommitSlot(7, 4096); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCommitSamples(b *testing.B) {
	d := newDomain(b, 0)
	w := newSampleWriter(b, d, audioDef(16, 48000), FlowOptions{})
	head := uint64(0)
	for b.Loop() {
		head += 48
		if err := w.Commit(head, 48); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGrain(b *testing.B) {
	d := newDomain(b, 0)
	w := newGrainWriter(b, d, dataDef(50, 1))
	r := newGrainReader(b, d, w.ID())
	write(b, w, 7, 1)
	for b.Loop() {
		if _, err := r.Grain(7, AllSlices); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	d := newDomain(b, 0)
	w := newGrainWriter(b, d, dataDef(50, 1))
	for b.Loop() {
		if err := w.Check(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkIsActive(b *testing.B) {
	d := newDomain(b, 0)
	w := newGrainWriter(b, d, dataDef(50, 1))
	for b.Loop() {
		if _, err := d.IsActive(w.ID()); err != nil {
			b.Fatal(err)
		}
	}
}

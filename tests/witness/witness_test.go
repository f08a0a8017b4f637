package witness

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// domainOf makes a domain directory.
func domainOf(t *testing.T, name string) *mxl.Domain {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	d, err := mxl.OpenDomain(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func dataFlow(t *testing.T, id uuid.UUID) []byte {
	t.Helper()
	def, err := json.Marshal(map[string]any{
		"id": id.String(), "label": "data", "description": "", "parents": []string{},
		"format": mxl.FormatData.URN(), "media_type": "video/smpte291", "grain_rate": map[string]int{"numerator": 50, "denominator": 1},
		"tags": map[string][]string{"urn:x-nmos:tag:grouphint/v1.0": {"data:Data"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return def
}

// pen writes grains of the pattern, or of a wrong one.
type pen struct {
	t       *testing.T
	ring    *mxl.DiscreteWriter
	payload pattern.Grains
}

func newPen(t *testing.T, d *mxl.Domain, id uuid.UUID) *pen {
	t.Helper()
	ring, _, err := d.CreateDiscreteWriter(dataFlow(t, id), mxl.FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return &pen{t, ring, pattern.NewGrains(id, ^uint64(0))}
}

func (p *pen) write(index uint64, wrong bool) {
	p.t.Helper()
	dst, err := p.ring.OpenGrain(index)
	if err != nil {
		p.t.Fatal(err)
	}
	p.payload.Fill(dst, index, 0)
	if wrong {
		dst[17] ^= 1
	}
	if err := p.ring.Commit(index, p.ring.TotalSlices(), 0); err != nil {
		p.t.Fatal(err)
	}
}

// until polls what was seen.
func until(t *testing.T, w *Witness, what string, is func(Seen) bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !is(w.Seen()); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not seen: %+v", what, w.Seen())
		}
	}
}

// TestGrains: a witness tells a lost grain from one that the writer left out,
// sees a wrong byte, a replaced file, and has news when something new came.
func TestGrains(t *testing.T) {
	id := uuid.New()
	origin, mirror := domainOf(t, "origin"), domainOf(t, "mirror")
	a, b := newPen(t, origin, id), newPen(t, mirror, id)
	a.write(100, false)
	b.write(100, false)
	w := New(Path{Name: "data", FlowID: id, Origin: origin.Path(), Mirror: mirror.Path(), Discrete: true})
	done := make(chan struct{})
	ctx := t.Context()
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	t.Cleanup(func() { <-done })
	both := func(index uint64) {
		a.write(index, false)
		b.write(index, false)
	}
	// The witness begins after the head, whenever it came to look.
	next := uint64(101)
	for ; w.Seen().Verified == 0; next++ {
		both(next)
		time.Sleep(5 * time.Millisecond)
	}
	next--
	start := w.Mark()

	a.write(next+1, false) // lost
	both(next + 2)
	both(next + 4) // next+3 was never written
	until(t, w, "two more", func(s Seen) bool { return s.LastIndex == next+4 })
	got := w.Since(start)
	if got.Verified != 2 || got.Lost != 1 || got.LeftOut != 1 || got.Bad != 0 {
		t.Errorf("a lost and a skipped grain: %+v", got)
	}

	a.write(next+5, false)
	b.write(next+5, true)
	until(t, w, "a wrong byte", func(s Seen) bool { return s.Bad == 1 })
	if w.Seen().FirstBad == "" {
		t.Error("a wrong byte is not described")
	}

	news := w.News()
	select {
	case at := <-news:
		t.Fatalf("news at %v of nothing", at)
	default:
	}
	if deleted, err := b.ring.Release(); !deleted || err != nil {
		t.Fatal(deleted, err)
	}
	b = newPen(t, mirror, id)
	both(next + 6)
	until(t, w, "another file", func(s Seen) bool { return s.Replaced == 1 && s.LastIndex == next+6 })
	select {
	case <-news:
	case <-time.After(10 * time.Second):
		t.Error("no news of a new grain")
	}
}

package peers

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// listing is an inventory with these heads, as an agent sends it; a head of 0 is left out.
func listing(revision int, heads ...uint64) []byte {
	inv := Inventory{HostID: "far", Revision: uint64(revision), Domains: []Domain{}}
	for i, head := range heads {
		id := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Append(nil, i)).String()
		def := fmt.Sprintf(`{"id":%q,"label":"a flow","tags":{"note":["head_index: 5"]}}`, id)
		f := Flow{ID: id, Def: json.RawMessage(def), DefText: def, Format: "discrete", Active: true, GrainRate: Rational{Numerator: 50, Denominator: 1}}
		if head != 0 {
			f.HeadIndex = &head
		}
		if i%2 == 0 {
			inv.Domains = append(inv.Domains, Domain{ID: fmt.Sprint("dom-", i), Options: json.RawMessage("{}")})
		}
		d := &inv.Domains[len(inv.Domains)-1]
		d.Flows = append(d.Flows, f)
	}
	body, err := json.Marshal(inv)
	if err != nil {
		panic(err)
	}
	return body
}

// Whatever came before, an answer reads as it does by itself.
func TestAnswersReadAsTheyDoByThemselves(t *testing.T) {
	spaced := []byte(strings.ReplaceAll(string(listing(1, 7, 8)), `"head_index":`, `"head_index": `))
	hidden := []byte(strings.Replace(string(listing(1, 7, 8)), `"label":"a flow"`, `"head_index":7`, 1))
	twice := []byte(strings.Replace(string(listing(1, 7, 8)), `"head_index":7`, `"head_index":6,"head_index":7`, 1))
	var a answers
	quick := 0
	for i, body := range [][]byte{
		listing(1, 7, 8, 0, 9), listing(1, 8, 9, 0, 10), listing(1, 99999, 100000, 0, 10), listing(1, 99999, 100000, 3, 10),
		listing(1, 1, 1, 3, 10), listing(2, 1, 1, 3, 10), listing(1), spaced, listing(1, 7, 8), spaced,
		[]byte(strings.ReplaceAll(string(spaced), ": 8", ": 9")), hidden, []byte(strings.Replace(string(hidden), `"head_index":7`, `"head_index":9`, 1)),
		twice, []byte(strings.Replace(string(twice), `"head_index":7`, `"head_index":1`, 1)),
		listing(1, 7, 8), []byte(strings.Replace(string(listing(1, 7, 8)), `"head_index":7`, `"head_index":7.5`, 1)),
		listing(1, 7, 8), []byte(strings.Replace(string(listing(1, 7, 8)), `"head_index":7`, `"head_index":07`, 1)),
		listing(1, 7, 8), []byte(strings.Replace(string(listing(1, 7, 8)), `"head_index":7`, `"head_index":null`, 1)),
		listing(1, 7, 8), listing(1, 7, 8)[:100], []byte("[]"), nil, listing(1, 18446744073709551615, 8), listing(1, 7, 8),
	} {
		if last := a.known["u"]; last != nil {
			if _, ok := last.withHeads(body); ok {
				quick++
			}
		}
		got, err := a.read("u", body)
		want, wantErr := ParseInventory(body)
		if !reflect.DeepEqual(got, want) || (err == nil) != (wantErr == nil) {
			t.Errorf("answer %d:\n%s\nreads as\n%+v %v\nby itself\n%+v %v", i, body, got, err, want, wantErr)
		}
	}
	if quick < 5 {
		t.Errorf("%d answers were read without parsing them", quick)
	}
	if large := listing(1, make([]uint64, 1000)...); len(large) <= maxRemembered || rememberable(large, &Inventory{}) != nil {
		t.Error("a large inventory is remembered")
	}
	for i := range 3 * maxRememberedPeers {
		if _, err := a.read(fmt.Sprint(i), listing(1, 7)); err != nil || len(a.known) > maxRememberedPeers {
			t.Fatalf("%d peers are remembered, %v", len(a.known), err)
		}
	}
}

func FuzzAnswers(f *testing.F) {
	f.Add(listing(1, 7, 8), listing(1, 8, 9))
	f.Add(listing(1, 7, 8), listing(2, 8))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var a answers
		_, _ = a.read("u", first)
		got, err := a.read("u", second)
		want, wantErr := ParseInventory(second)
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("after %q, %q reads as %+v, by itself as %+v", first, second, got, want)
		}
	})
}

func BenchmarkPoll25Flows(b *testing.B) {
	heads := make([]uint64, 25)
	for i := range heads {
		heads[i] = 44_000_000_000
	}
	body := listing(1, heads...)
	b.Run("by itself", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := ParseInventory(body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("after another", func(b *testing.B) {
		var a answers
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.read("u", body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

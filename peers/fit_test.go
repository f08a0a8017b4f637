package peers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// plainFlowOf is a flow whose definition has a length.
func plainFlowOf(n, length int) Flow {
	id := fmt.Sprintf("00000000-0000-4000-8000-%012x", n)
	def := `{"id":"` + id + `","label":"` + strings.Repeat("l", max(0, length-60)) + `"}`
	return Flow{ID: id, Def: json.RawMessage(def), DefText: def, Format: "discrete", MediaType: "video/v210"}
}

func domainOf(id string, flows ...Flow) Domain {
	return Domain{ID: id, Path: "/m/" + id, Options: json.RawMessage("{}"), Flows: flows}
}

func encoded(t *testing.T, i *Inventory) []byte {
	t.Helper()
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What a host has now stays as it is.
func TestFitLeavesAlone(t *testing.T) {
	make500 := func() *Inventory {
		i := &Inventory{HostID: "a", Revision: 1, Unusable: []Unusable{{Name: "/m/x", Reason: "no id"}}}
		for d := range 50 {
			domain := domainOf(fmt.Sprint("d", d))
			for f := range 10 {
				domain.Flows = append(domain.Flows, plainFlowOf(d*10+f, 1200))
			}
			i.Domains = append(i.Domains, domain)
		}
		return i
	}
	got := make500()
	got.Fit()
	if diff := cmp.Diff(make500(), got); diff != "" {
		t.Error(diff)
	}
}

// A hundred definitions of 64 KiB in one domain are more than a peer reads. They
// cost their own domain what does not fit and the others nothing.
func TestFitOfManyLongDefinitions(t *testing.T) {
	i := &Inventory{HostID: "a", Revision: 1}
	studio := domainOf("studio", plainFlowOf(1, 1000), plainFlowOf(2, 1500), plainFlowOf(3, 30_000))
	runaway := domainOf("runaway")
	for n := range 200 {
		runaway.Flows = append(runaway.Flows, plainFlowOf(1000+n, maxDefinition))
	}
	runaway.Flows = append(runaway.Flows, plainFlowOf(5000, 900))
	i.Domains = []Domain{runaway, studio}
	if len(encoded(t, i)) < 2*maxAnswer {
		t.Fatal("the inventory is not too large")
	}
	i.Fit()
	text := encoded(t, i)
	if len(text) > answerRoom || len(text) < answerRoom-2*maxDefinition {
		t.Errorf("%d bytes of %d", len(text), answerRoom)
	}
	read, err := ParseInventory(text)
	if err != nil || len(read.Problems) != 0 {
		t.Fatalf("a peer cannot read it: %v %v", err, read)
	}
	for n := 1; n <= 3; n++ {
		if read.Flow("studio", plainFlowOf(n, 0).ID) == nil {
			t.Errorf("flow %d of the other domain is lost", n)
		}
	}
	if read.Flow("runaway", plainFlowOf(5000, 0).ID) == nil {
		t.Error("the short flow of the domain is lost")
	}
	d := i.Domain("runaway")
	if len(d.Flows)+len(d.NotReplicable) != 201 || !strings.Contains(d.NotReplicable[0].Reason, "do not fit the 8 MiB that a peer reads") {
		t.Errorf("%d flows and %d notes, %v", len(d.Flows), len(d.NotReplicable), d.NotReplicable[:1])
	}
}

// anything is an inventory that only its seed decides.
func anything(seed uint64) *Inventory {
	random := rand.New(rand.NewPCG(seed, 2))
	long := func(n int) string { return strings.Repeat(string([]byte{byte(random.IntN(256))}), random.IntN(n)) }
	i := &Inventory{HostID: "a", Revision: 1, Domains: []Domain{}}
	for range random.IntN(30) {
		i.Unusable = append(i.Unusable, Unusable{Name: long(500), Reason: long(500)})
	}
	for n := range random.IntN(12) {
		d := domainOf(fmt.Sprint("d", n))
		d.Options = json.RawMessage(`{"x":"` + strings.Repeat("o", random.IntN(9000)) + `"}`)
		for m := range random.IntN(20) {
			d.Flows = append(d.Flows, plainFlowOf(100*n+m, random.IntN(4000)))
		}
		for range random.IntN(4) {
			d.NotReplicable = append(d.NotReplicable, Unusable{Name: long(300), Reason: long(300)})
		}
		i.Domains = append(i.Domains, d)
	}
	return i
}

// What lies in the root can be anything and as much as there is room for: what is
// left fits, and is the same every time.
func TestFitOfAnything(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 3))
		room, records := 20_000+random.IntN(40_000), 20+random.IntN(60)
		i, again := anything(seed), anything(seed)
		if bound, real := i.sizes().total, len(encoded(t, i)); bound < real {
			t.Fatalf("%d: a bound of %d for %d bytes", seed, bound, real)
		}
		i.fit(room, records)
		// Notes are not left out: their number is bounded, and small beside a real room.
		if n, have := len(encoded(t, i)), i.sizes().records; (n > room || have >= records) && len(i.Domains) > 0 {
			t.Errorf("%d: %d of %d bytes, %d of %d records", seed, n, room, have, records)
		}
		if i.Domains == nil {
			t.Errorf("%d: domains is null", seed)
		}
		if again.fit(room, records); !reflect.DeepEqual(i, again) {
			t.Errorf("%d: not the same again", seed)
		}
	}
}

// A root full of rubbish does not outgrow an answer, and says how much there is.
func TestFitOfRubbish(t *testing.T) {
	i := &Inventory{HostID: "a", Revision: 1, Domains: []Domain{domainOf("d", plainFlowOf(1, 800))}}
	for n := range 50_000 {
		i.Unusable = append(i.Unusable, Unusable{Name: strings.Repeat("\x01", 4096), Reason: "no id"})
		i.Domains[0].NotReplicable = append(i.Domains[0].NotReplicable, Unusable{Name: fmt.Sprint(n), Reason: "flow_def.json: no such file or directory"})
	}
	i.Fit()
	text := encoded(t, i)
	read, err := ParseInventory(text)
	if err != nil || len(text) > answerRoom || read.Flow("d", plainFlowOf(1, 0).ID) == nil {
		t.Errorf("%d bytes, %v, %+v", len(text), err, read)
	}
	if last := i.Unusable[len(i.Unusable)-1]; last.Reason != "more than 500 directories cannot be used, the rest is not named" {
		t.Errorf("the last note is %v", last)
	}
}

package peers

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every member that this agent sends is read: a record keeps the members that it
// knows and no others, and one that is not among them would be lost without a word.
func TestEveryMemberIsRead(t *testing.T) {
	head := uint64(1) << 60
	answer := ReplicationAnswer{
		Error: "no verbs interface", OriginHead: &head, ReplicationID: "r", State: "error", Provider: "tcp", TargetSecret: true,
	}
	again(t, answer, ParseReplicationAnswer)
	info := Info{
		BootID: "b", HostID: "h", LibfabricVersion: "2.3.1", MXLRootTmpfs: true, MXLVersion: "1.2", Providers: []string{"tcp", "verbs"},
		TAIOffsetSeconds: 37, Version: "1.7.3",
	}
	again(t, info, ParseInfo)
	def := `{"id":"` + flowA + `", "label":"a"}`
	rate := Rational{Numerator: 48000, Denominator: 1}
	inv := Inventory{HostID: "h", Revision: 7, Domains: []Domain{{
		ID: "d", Path: "/Volumes/mxl/d", Options: json.RawMessage(`{"x":1}`), Flows: []Flow{{
			ID: flowA, Def: json.RawMessage(`{"id":"` + flowA + `","label":"a"}`), DefText: def, Format: "continuous", MediaType: "audio/float32",
			Active: true, Live: true, GrainRate: rate, SampleRate: &rate, RingDepth: 9600, PayloadSize: 64, HeadIndex: &head,
		}},
	}}}
	again(t, &inv, ParseInventory)
	again(t, &inv, carefulInventory)
}

func again[T any](t *testing.T, sent T, parse func([]byte) (T, error)) {
	t.Helper()
	body, err := json.Marshal(sent)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parse(body)
	if diff := cmp.Diff(sent, got); err != nil || diff != "" {
		t.Errorf("%v: %s (-sent +read):\n%s", err, body, diff)
	}
}

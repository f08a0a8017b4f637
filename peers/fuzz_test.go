package peers

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// seedInventories adds inventories that hold the definitions of the fixtures.
func seedInventories(f *testing.F) {
	f.Helper()
	f.Add([]byte(original131))
	f.Add([]byte(`{"domains":[{"domain_id":"d","flows":[{}]}]}`))
	f.Add([]byte(`{"domains":[7,{"domain_id":"../x"},{"domain_id":"d"},{"domain_id":"d"}],"revision":1e3}`))
	files, err := filepath.Glob("../tests/fixtures/mxl/*/flow_def.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no definitions in the fixtures: %v", err)
	}
	inv := Inventory{HostID: "a", Revision: 3}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		var def struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(text, &def); err != nil {
			f.Fatal(err)
		}
		d := Domain{ID: filepath.Base(filepath.Dir(file)), Path: "/m", Options: json.RawMessage("{}"), Flows: []Flow{{ID: def.ID, Def: text, DefText: string(text), Format: "discrete"}}}
		inv.Domains = append(inv.Domains, d)
		one, err := json.Marshal(Inventory{HostID: "a", Revision: 1, Domains: []Domain{d}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(one)
	}
	all, err := json.Marshal(inv)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(all)
}

// FuzzInventory: what is taken names directories and flows, is what both ways of
// reading make of it when it is written again, and holds no more than was sent.
func FuzzInventory(f *testing.F) {
	seedInventories(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		inv, err := ParseInventory(body)
		if err != nil {
			if len(err.Error()) == 0 || len(err.Error()) > maxReason {
				t.Fatalf("error %q", err)
			}
			return
		}
		checkInventory(t, inv)
		inv.Problems = nil
		text, err := json.Marshal(inv)
		if err != nil {
			t.Fatal(err)
		}
		plain, ok := plainInventory(text)
		careful, err := carefulInventory(text)
		if !ok || err != nil {
			t.Fatalf("%s is not read again: plain %v, careful %v", text, ok, err)
		}
		for _, again := range []*Inventory{plain, careful} {
			second, err := json.Marshal(again)
			if err != nil || !bytes.Equal(text, second) || len(again.Problems) > 0 {
				t.Fatalf("%s\nis read as\n%s\n%v %v", text, second, err, again.Problems)
			}
		}
	})
}

func checkInventory(t *testing.T, inv *Inventory) {
	t.Helper()
	if len(inv.Problems) > maxProblems+1 {
		t.Fatalf("%d problems", len(inv.Problems))
	}
	for _, p := range inv.Problems {
		if p.Reason == "" || len(p.Reason) > 2*maxReason {
			t.Fatalf("problem %q", p.Reason)
		}
	}
	for _, d := range inv.Domains {
		if strings.ContainsAny(d.ID, "/\x00") || d.ID[0] == '.' || len(d.ID) > maxDomainID || len(d.Options) > maxDefinition || !json.Valid(d.Options) {
			t.Fatalf("domain %+v", d)
		}
		for _, fl := range d.Flows {
			if !isUUID(fl.ID) || !json.Valid(fl.Def) || len(fl.Def) > maxDefinition || len(fl.DefText) > maxDefinition {
				t.Fatalf("flow %+v", fl)
			}
			if fl.DefText != "" && !json.Valid([]byte(fl.DefText)) {
				t.Fatalf("definition %q", fl.DefText)
			}
		}
	}
}

// FuzzFit: whatever is in an inventory, what is made of it fits and is read without
// a problem.
func FuzzFit(f *testing.F) {
	f.Add(uint64(1), uint32(20_000), uint16(30), "n", "r")
	f.Add(uint64(2), uint32(1), uint16(1), "\xff\x00\"", strings.Repeat("\u2028", 400))
	f.Fuzz(func(t *testing.T, seed uint64, room uint32, records uint16, name, reason string) {
		inv := anything(seed)
		inv.Unusable = append(inv.Unusable, Unusable{Name: name, Reason: reason})
		inv.fit(int(room), int(records))
		text, err := json.Marshal(inv)
		if err != nil {
			t.Fatal(err)
		}
		if len(inv.Domains) > 0 && (len(text) > int(room) || inv.sizes().records >= int(records)) {
			t.Fatalf("%d of %d bytes, %d of %d records", len(text), room, inv.sizes().records, records)
		}
		again, err := ParseInventory(text)
		if err != nil || len(again.Problems) > 0 || len(again.Domains) != len(inv.Domains) {
			t.Fatalf("%v, %+v", err, again)
		}
	})
}

// FuzzRecord: the parts of a text are those that encoding/json finds.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"flow_id":"x","options":{"a":[1,2,{"b":"]}\\\""}]}, "active" : true,"head_index":12}`))
	f.Add([]byte(`{"flo\u0077_id":"x","flows":[ 1 , "a,b" , {} , [] , null ]}`))
	f.Add([]byte(original131))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, ok := parseRecord(text)
		var want map[string]json.RawMessage
		wantOK := json.Unmarshal(text, &want) == nil && want != nil
		if ok != wantOK {
			t.Fatalf("%q: an object: %v, want %v", text, ok, wantOK)
		}
		if len(got) > 64 {
			t.Fatalf("%d members are kept", len(got))
		}
		for name, value := range got {
			if !bytes.Equal(bytes.TrimSpace(value), bytes.TrimSpace(want[name])) {
				t.Fatalf("%q of %q is %q, want %q", name, text, value, want[name])
			}
		}
		for name, value := range want {
			if _, known := memberName([]byte(`"` + name + `"`)); known && got[name] == nil {
				t.Fatalf("%q of %q is missing", name, text)
			}
			var list, elements []json.RawMessage
			if json.Unmarshal(value, &list) != nil || got[name] == nil {
				continue
			}
			got.each(name, func(e json.RawMessage) bool { elements = append(elements, bytes.TrimSpace(e)); return true })
			if len(list)+len(elements) > 0 && !reflect.DeepEqual(list, elements) {
				t.Fatalf("the elements of %q are %q, want %q", value, elements, list)
			}
		}
		_ = checkRecords(text)
	})
}

// FuzzInfo: texts are short whatever a peer says, and what is shown reads back.
func FuzzInfo(f *testing.F) {
	f.Add([]byte(`{"host_id":"b","providers":["tcp"]}`))
	f.Add([]byte(`{"host_id":"b","boot_id":"x","version":"1.3.1","mxl_version":7,"providers":["tcp",1],"tai_offset_seconds":37.0,"mxl_root_tmpfs":true}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		info, err := ParseInfo(body)
		if err != nil {
			return
		}
		for _, s := range append([]string{info.BootID, info.HostID, info.Version, info.MXLVersion, info.LibfabricVersion}, info.Providers...) {
			if len(s) > maxReason+len("…") || !utf8.ValidString(s) {
				t.Fatalf("text %q", s)
			}
		}
		text, err := json.Marshal(info)
		if err != nil {
			t.Fatal(err)
		}
		// A text that was cut is cut again.
		if again, err := ParseInfo(text); err != nil || len(body) < maxReason && !reflect.DeepEqual(info, again) {
			t.Fatalf("%+v reads back as %+v, %v", info, again, err)
		}
	})
}

// FuzzReplicationAnswer: what a source says, also with an error status.
func FuzzReplicationAnswer(f *testing.F) {
	f.Add([]byte(`{"replication_id":"r","state":"active","origin_head":84000000000123}`))
	f.Add([]byte(`{"error":"not local","state":"error"}`))
	f.Add([]byte(`{"origin_head":1e400,"state":7}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		a, err := ParseReplicationAnswer(body)
		if err != nil {
			return
		}
		for _, s := range []string{a.ReplicationID, a.State, a.Error} {
			if len(s) > maxReason+len("…") || !utf8.ValidString(s) {
				t.Fatalf("text %q", s)
			}
		}
		text, err := json.Marshal(a)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParseReplicationAnswer(text); err != nil || len(body) < maxReason && !reflect.DeepEqual(a, again) {
			t.Fatalf("%+v reads back as %+v, %v", a, again, err)
		}
	})
}

// FuzzEvents: a stream gives no more than it holds, keeps a bounded memory, and
// cut at any place gives the same events as before the cut.
func FuzzEvents(f *testing.F) {
	f.Add("event: inventory\ndata: 3\n\nevent: ping\r\ndata: {}\r\n\r\n", 10)
	f.Add(": comment\ndata\ndata: a\ndata: b\n\n", 3)
	f.Add("event: replication\ndata: {\"replication_id\":\"r\",\"state\":\"active\"}\n\nevent: peer\ndata: x\n\n", 40)
	f.Fuzz(func(t *testing.T, stream string, cut int) {
		read := func(s string) (events []Event) {
			ears := listener{heard: make(map[string]string)}
			total := 0
			err := readEvents(strings.NewReader(s), func(e Event) {
				total += len(e.Name) + len(e.Data)
				events = append(events, e)
				if ears.wants(e, Peer{}) && ears.wants(e, Peer{}) {
					t.Fatalf("%+v is news twice", e)
				}
			})
			if err == nil {
				t.Fatal("a stream ends with a reason")
			}
			if total > len(s) || len(ears.heard) > maxHeard {
				t.Fatalf("%d bytes of events out of %d, %d remembered", total, len(s), len(ears.heard))
			}
			return events
		}
		whole := read(stream)
		part := read(stream[:min(len(stream), max(0, cut))])
		if len(part) > len(whole) || len(part) > 0 && !reflect.DeepEqual(part, whole[:len(part)]) {
			t.Fatalf("%+v before the cut, %+v of the whole", part, whole)
		}
	})
}

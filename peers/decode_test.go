package peers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

const (
	flowA = "5fbec3b1-1b0f-417d-9059-8b94a47197ed"
	flowB = "b3bb5be7-9fe9-4324-a5bb-4c70e1084449"
)

// original131 is what a 1.3.1 agent answers: doubles, sorted keys, no head.
const original131 = `{"domains":[{"domain_id":"d1","flows":[
 {"active":true,"flow_def":{"id":"` + flowA + `","media_type":"video/v210"},"flow_id":"` + flowA + `","format":"discrete",
  "grain_rate":{"denominator":1.0,"numerator":50.0},"live":true,"media_type":"video/v210","payload_size":5529600.0,"ring_depth":1e1,"sample_rate":null},
 {"active":false,"flow_def":{"id":"` + flowB + `"},"flow_id":"` + flowB + `","format":"continuous","grain_rate":{"denominator":1,"numerator":48000},
  "live":false,"media_type":"audio/float32","payload_size":64,"ring_depth":9600,"sample_rate":{"denominator":1,"numerator":48000},"head_index":84000000000123}
 ],"options":{"x":1},"path":"/Volumes/mxl/d1"}],"host_id":"node-b","revision":3.0}`

func TestParseInventory(t *testing.T) {
	got, err := ParseInventory([]byte(original131))
	if err != nil {
		t.Fatal(err)
	}
	head := uint64(84_000_000_000_123)
	want := &Inventory{Revision: 3, HostID: "node-b", Domains: []Domain{{
		ID: "d1", Path: "/Volumes/mxl/d1", Options: json.RawMessage(`{"x":1}`),
		Flows: []Flow{
			{ID: flowA, Def: json.RawMessage(`{"id":"` + flowA + `","media_type":"video/v210"}`), Format: "discrete", MediaType: "video/v210",
				Active: true, Live: true, GrainRate: Rational{1, 50}, RingDepth: 10, PayloadSize: 5529600},
			{ID: flowB, Def: json.RawMessage(`{"id":"` + flowB + `"}`), Format: "continuous", MediaType: "audio/float32",
				GrainRate: Rational{1, 48000}, SampleRate: &Rational{1, 48000}, RingDepth: 9600, PayloadSize: 64, HeadIndex: &head},
		},
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !got.Flow("d1", flowB).Continuous() || got.Flow("d1", "x") != nil || got.Flow("d2", flowB) != nil || (*Inventory)(nil).Domain("d1") != nil {
		t.Error("look-ups are wrong")
	}
	// What we write, we read.
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseInventory(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

func TestParseInventoryTolerates(t *testing.T) {
	for name, c := range map[string]struct {
		body     string
		flows    int
		problems []string // parts of the reasons
	}{
		"empty object":              {`{}`, 0, nil},
		"domains of another type":   {`{"domains":7,"revision":"x"}`, 0, nil},
		"domain of another type":    {`{"domains":[7,{"domain_id":"d","flows":[` + flow("") + `]}]}`, 1, []string{"domain record: not an object"}},
		"domain without id":         {`{"domains":[{"flows":[` + flow("") + `]}]}`, 0, []string{"domain_id"}},
		"domain id climbs":          {`{"domains":[{"domain_id":"../etc","flows":[]}]}`, 0, []string{"../etc"}},
		"domain listed twice":       {`{"domains":[{"domain_id":"d","flows":[` + flow("") + `]},{"domain_id":"d"}]}`, 1, []string{"twice"}},
		"flow of another type":      {`{"domains":[{"domain_id":"d","flows":["x",` + flow("") + `]}]}`, 1, []string{"flow record: not an object"}},
		"flow without definition":   {`{"domains":[{"domain_id":"d","flows":[{"flow_id":"` + flowB + `"},` + flow("") + `]}]}`, 1, []string{"flow_def"}},
		"flow id is no UUID":        {`{"domains":[{"domain_id":"d","flows":[{"flow_id":"../x","flow_def":{}},` + flow("") + `]}]}`, 1, []string{"not a UUID"}},
		"definition of another":     {`{"domains":[{"domain_id":"d","flows":[{"flow_id":"` + flowB + `","flow_def":{"id":"` + flowA + `"}}]}]}`, 0, []string{"flow_def has the id"}},
		"flow listed twice":         {`{"domains":[{"domain_id":"d","flows":[` + flow("") + `,` + flow("") + `]}]}`, 1, []string{"twice"}},
		"flow listed in capitals":   {`{"domains":[{"domain_id":"d","flows":[` + flow("") + `,` + strings.Replace(flow(""), flowA, strings.ToUpper(flowA), 1) + `]}]}`, 1, []string{"twice"}},
		"wrongly typed members":     {`{"domains":[{"domain_id":"d","flows":[` + flow(`,"active":1,"live":"yes","ring_depth":-1,"payload_size":"x","grain_rate":[],"head_index":null`) + `]}]}`, 1, nil},
		"unknown members":           {`{"new":1,"domains":[{"domain_id":"d","new":{},"flows":[` + flow(`,"new":[]`) + `]}]}`, 1, nil},
		"options of another type":   {`{"domains":[{"domain_id":"d","options":[],"flows":[` + flow("") + `]}]}`, 1, nil},
		"head too large for 64 bit": {`{"domains":[{"domain_id":"d","flows":[` + flow(`,"head_index":1e30`) + `]}]}`, 1, nil},
	} {
		inv, err := ParseInventory([]byte(c.body))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		n := 0
		for _, d := range inv.Domains {
			n += len(d.Flows)
			for _, f := range d.Flows {
				if f.HeadIndex != nil || f.Active || f.Live || f.RingDepth != 0 {
					t.Errorf("%s: %+v has values out of nothing", name, f)
				}
			}
			if string(d.Options) != "{}" {
				t.Errorf("%s: options %s", name, d.Options)
			}
		}
		if n != c.flows || len(inv.Problems) != len(c.problems) {
			t.Errorf("%s: %d flows, problems %v", name, n, inv.Problems)
			continue
		}
		for i, part := range c.problems {
			if !strings.Contains(inv.Problems[i].Reason, part) {
				t.Errorf("%s: problem %q does not say %q", name, inv.Problems[i].Reason, part)
			}
		}
	}
	for _, bad := range []string{``, `[]`, `null`, `7`, `{`} {
		if _, err := ParseInventory([]byte(bad)); err == nil {
			t.Errorf("%q is no inventory", bad)
		}
		if _, err := ParseInfo([]byte(bad)); err == nil {
			t.Errorf("%q is no info", bad)
		}
	}
}

func flow(more string) string {
	return `{"flow_id":"` + flowA + `","flow_def":{"id":"` + flowA + `"}` + more + `}`
}

func TestParseInfo(t *testing.T) {
	got, err := ParseInfo([]byte(`{"host_id":"b","boot_id":"x","version":"1.3.1","mxl_version":7,"providers":["tcp",1],"tai_offset_seconds":37.0,"mxl_root_tmpfs":true}`))
	want := Info{HostID: "b", BootID: "x", Version: "1.3.1", Providers: []string{"tcp"}, TAIOffsetSeconds: 37, MXLRootTmpfs: true}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestReadEvents(t *testing.T) {
	stream := ": hello\nevent: inventory\ndata: 3\n\nevent:peer\r\ndata: {\"a\":1}\r\n\r\n\n\nid: 7\nretry: 10\nevent: mirror\ndata: a\ndata: b\n\nevent: cut\ndata: of"
	var got []Event
	err := readEvents(strings.NewReader(stream), func(e Event) { got = append(got, e) })
	want := []Event{{"inventory", "3"}, {"peer", `{"a":1}`}, {"mirror", "a\nb"}}
	if diff := cmp.Diff(want, got); diff != "" || err == nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if err := readEvents(strings.NewReader(strings.Repeat("x", maxEventLine+1)+"\n\n"), func(Event) {}); err == nil || !strings.Contains(err.Error(), "buffer full") {
		t.Errorf("a line that is too long: %v", err)
	}
}

// The log names a problem once, wherever in the list its record is, and a peer
// cannot fill the log with them.
func TestProblemsOfAnInventory(t *testing.T) {
	problems := func(before, bad string) []Problem {
		inv, err := ParseInventory([]byte(`{"domains":[` + before + bad + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return inv.Problems
	}
	bad := `{"domain_id":"../x"},7`
	if alone, later := problems("", bad), problems(`{"domain_id":"d"},`, bad); !slices.Equal(alone, later) || len(alone) != 2 {
		t.Errorf("%v alone, %v after another domain", alone, later)
	}
	var many strings.Builder
	for i := range 3 * maxProblems {
		fmt.Fprintf(&many, `{"domain_id":"/%d"},`, i)
	}
	all := problems(many.String(), "7")
	if last := all[len(all)-1]; len(all) != maxProblems+1 || last.Reason != "more than 100 records cannot be used, the rest is not named" {
		t.Errorf("%d problems, the last is %v", len(all), last)
	}
}

func TestAnswerTextsAreClipped(t *testing.T) {
	a, err := ParseReplicationAnswer([]byte(`{"state":"error","error":"` + strings.Repeat("é", 100_000) + `"}`))
	if err != nil || len(a.Error) > maxReason+len("…") || !utf8.ValidString(a.Error) || !strings.HasSuffix(a.Error, "é…") {
		t.Errorf("%d bytes, %v", len(a.Error), err)
	}
}

// TestUnbalanced: what closes more than it opened is no inventory, and no reason to
// fall over it.
func TestUnbalanced(t *testing.T) {
	for _, text := range []string{"]]]{", "}}[", "]]]]]]{{{{{{[,", `"]]"]]]{"`} {
		if inv, err := ParseInventory([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, inv)
		}
	}
}

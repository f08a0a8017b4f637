package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

var update = flag.Bool("update", false, "write the golden files anew")

func buckets(counts ...uint64) Buckets {
	return Buckets{Bounds: []float64{0.001, 0.005, 0.01}, Counts: counts, Sum: 0.125, Max: 0.0625}
}

// populated is an agent in the middle of its day, with rows of every kind.
func populated() Snapshot {
	age, retransmits := 40*time.Millisecond, uint64(3)
	return Snapshot{
		PerFlow: true, HostID: "node-b", Version: "2.0.0", MXLVersion: "release/v1.1", LibfabricVersion: "2.3.1",
		DomainsLocal: 2, DomainsMirror: 1, FlowsActive: 3, FlowsInactive: 1, TmpfsFree: 8 << 30, TmpfsSize: 16 << 30, TAIOffset: 37,
		Peers: []Peer{
			{HostID: "node-a", Interface: "e1", Up: true, Device: "irdma0", Retransmits: &retransmits},
			{HostID: "node-c", Interface: "", Up: false},
			{HostID: "bad\xff", Interface: "e2", Up: true},
		},
		OriginConflicts: 1, RegistryUp: true, NMOSPollErrors: 2, Demand: map[string]int{"replicating": 2, "unresolved": 1},
		Replications: []Replication{
			{FlowID: "v1", Peer: "node-a", Role: "destination", Provider: "verbs", State: "active", Grains: 9007199254740993, Bytes: 5529600, Restarts: 1, LagGrains: 2, LagMS: 40, QueueDepth: 256},
			{FlowID: "a1", Peer: "node-a", Role: "destination", Provider: "verbs", State: "pending", QueueDepth: 256},
			{FlowID: "v2", Peer: "node-c", Role: "source", Provider: "tcp", State: "error", Grains: 5, Bytes: 50, Errors: 2, OriginGaps: 4},
			{FlowID: "v2", Peer: "node-c", Role: "source", Provider: "tcp", State: "error", Grains: 7, Bytes: 70, Errors: 1, OriginGaps: 1},
		},
		Lanes: []Lane{
			{Key: "1", FlowID: "v1", Role: "destination", Provider: "verbs", LateDeliveries: 2, Strangers: 3, ThreadStall: map[string]Buckets{"pass": buckets(0, 0, 0, 1)}},
			{Key: "2", FlowID: "a1", Role: "destination", Provider: "verbs", Continuous: true, LateDeliveries: 3, AgeDelivered: buckets(1, 2, 3, 4), DeliveryGap: buckets(4, 3, 2, 1)},
			{Key: "3", FlowID: "v2", Role: "source", Provider: "tcp", Transfer: buckets(5, 5, 0, 1), TransferStalls: 1},
			{Key: "4", FlowID: "a2", Role: "source", Provider: "tcp", Continuous: true, Transfer: buckets(9, 0, 0, 2), TransferStalls: 2,
				AgeOrigin: buckets(1, 0, 0, 0), AgeSent: buckets(0, 1, 0, 0)},
		},
		RequestedACKTimeout: 67_108_864, RequestedRetries: 7,
		Mirrors: []Mirror{
			{DomainID: "d1", FlowID: "v1", Peer: "node-a", State: "stale", LastGrainAge: &age, Rebuilds: 2},
			{DomainID: "d1", FlowID: "a1", Peer: "node-a", State: "pending"},
			{DomainID: "d1", FlowID: "x1", Peer: "node-a", State: "absent", LastGrainAge: &age, Rebuilds: 1},
		},
		MirrorDomains: map[string]int{"active": 1},
	}
}

func page() *Page {
	p := New()
	p.QueuePair("destination", "14", "7")
	p.QueuePair("source", "unknown", "unknown")
	p.DomainRemoved("idle")
	p.DomainRefused("api")
	p.FlowRemoved("origin_missing")
	p.FlowRefused("origin_missing")
	p.Setup("handshake", 3*time.Millisecond)
	p.Work("plan", 250*time.Microsecond)
	return p
}

// ours renders the families of ours.
func ours(t testing.TB, p *Page) string {
	t.Helper()
	text, err := p.Text()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, Prefix) {
			out.WriteString(line)
		}
	}
	return out.String()
}

func TestGolden(t *testing.T) {
	for name, perFlow := range map[string]bool{"page.txt": true, "page_without_flows.txt": false} {
		p, s := page(), populated()
		s.PerFlow = perFlow
		p.Set(s)
		got := ours(t, p)
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSeriesAsDescribed holds the page to the table: every family is there,
// none is not in the table, types and labels agree.
func TestSeriesAsDescribed(t *testing.T) {
	for _, perFlow := range []bool{true, false} {
		p, s := page(), populated()
		s.PerFlow = perFlow
		p.Set(s)
		p.registry.MustRegister(p)
		families, err := p.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := make(map[string]*dto.MetricFamily)
		for _, f := range families {
			if strings.HasPrefix(f.GetName(), Prefix) {
				found[f.GetName()] = f
			}
		}
		for _, s := range All() {
			f, ok := found[s.Name]
			delete(found, s.Name)
			if want := perFlow || s.PerFlow != Dropped; ok != want {
				t.Errorf("per flow %v: %s is there: %v", perFlow, s.Name, ok)
			}
			if !ok {
				continue
			}
			labels := slices.Clone(s.Labels)
			if !perFlow && s.PerFlow == Totalled {
				labels = slices.Clone(s.TotalLabels)
			}
			slices.Sort(labels)
			for _, m := range f.GetMetric() {
				var got []string
				for _, l := range m.GetLabel() {
					got = append(got, l.GetName())
				}
				if !slices.Equal(got, labels) {
					t.Errorf("per flow %v: %s has labels %v, want %v", perFlow, s.Name, got, labels)
				}
			}
			if strings.ToLower(f.GetType().String()) != string(s.Kind) || f.GetHelp() != s.Help || s.Help == "" {
				t.Errorf("%s: %s %q", s.Name, f.GetType(), f.GetHelp())
			}
		}
		for name := range found {
			t.Errorf("%s is not in the table", name)
		}
	}
}

// TestTextEqualsRegistry holds the page's own rendering to that of the client
// library, line by line.
func TestTextEqualsRegistry(t *testing.T) {
	for _, perFlow := range []bool{true, false} {
		p, s := page(), populated()
		s.PerFlow = perFlow
		s.Peers = append(s.Peers, Peer{HostID: "q\"\\\n{}", Interface: "e,3"})
		s.TmpfsFree, s.TAIOffset = 1<<60, -37
		s.Replications[0].LagMS = 1e-9
		p.Set(s)
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(p)
		gathered, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var want bytes.Buffer
		for _, f := range gathered {
			if _, err := expfmt.MetricFamilyToText(&want, f); err != nil {
				t.Fatal(err)
			}
		}
		own, blocks := newText(), make(map[string][]byte)
		p.scrape(own)
		own.blocks(blocks)
		var got bytes.Buffer
		for _, name := range slices.Sorted(maps.Keys(blocks)) {
			got.Write(blocks[name])
		}
		if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")); diff != "" {
			t.Errorf("per flow %v (-library +own):\n%s", perFlow, diff)
		}
	}
}

func TestLint(t *testing.T) {
	p := page()
	p.Set(populated())
	problems, err := promlint.New(strings.NewReader(ours(t, p))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range problems {
		switch problem.Metric {
		case Prefix + "replication_lag_ms", Prefix + "fabric_requested_retry_count":
			continue // the contract's own names
		}
		t.Errorf("%s: %s", problem.Metric, problem.Text)
	}
}

func value(t *testing.T, p *Page, series string) string {
	t.Helper()
	for line := range strings.Lines(ours(t, p)) {
		if rest, ok := strings.CutPrefix(line, Prefix+series+" "); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

func TestTotalsOnlyGrow(t *testing.T) {
	p := New()
	lane := func(key string, n uint64) Lane {
		return Lane{Key: key, FlowID: "v", Role: "source", Provider: "tcp", Transfer: buckets(n, 0, 0, 0), TransferStalls: n,
			ThreadStall: map[string]Buckets{"pass": buckets(0, n)}}
	}
	set := func(lanes ...Lane) { p.Set(Snapshot{PerFlow: true, Lanes: lanes}) }
	expect := func(step, want string) {
		t.Helper()
		for _, series := range []string{`grain_transfer_seconds_count{provider="tcp"}`, `grain_transfer_stalls_total{provider="tcp"}`, `fabric_thread_stall_seconds_count{task="pass"}`} {
			if got := value(t, p, series); got != want {
				t.Errorf("%s: %s is %s, want %s", step, series, got, want)
			}
		}
	}
	set(lane("1", 5))
	expect("one lane", "5")
	set(lane("1", 7), lane("2", 1))
	expect("two lanes", "8")
	set(lane("2", 2))
	expect("the first is gone", "9")
	p.Retire(lane("2", 4))
	expect("the second ended", "11")
	set()
	expect("nothing left", "11")
	set(lane("2", 2))
	expect("a snapshot from before its end", "11")
	set(lane("3", 1))
	expect("another lane", "12")
	set(lane("3", 0))
	expect("it started over", "12")
	set(lane("3", 3))
	expect("and counts", "15")
	for i := range 3 * endedKept {
		p.Retire(lane(fmt.Sprint("many ", i), 0))
	}
	if n := len(p.lanes.ended) + len(p.lanes.endedBefore); n > 2*endedKept {
		t.Errorf("%d keys of lanes that ended are kept", n)
	}
	expect("many that counted nothing", "15")
}

func TestFlowSeriesVanish(t *testing.T) {
	p := New()
	p.Set(populated())
	if !strings.Contains(ours(t, p), `flow_id="a2"`) {
		t.Fatal("no series of a2")
	}
	s := populated()
	s.Lanes, s.Replications, s.Mirrors = nil, nil, nil
	p.Set(s)
	if text := ours(t, p); strings.Contains(text, "flow_id") {
		t.Errorf("series of flows that are gone:\n%s", text)
	}
}

func TestRebuildTotal(t *testing.T) {
	p := New()
	set := func(mirrors ...Mirror) string {
		p.Set(Snapshot{Mirrors: mirrors})
		return value(t, p, "mirror_rebuilds_total")
	}
	for i, c := range []struct {
		mirrors []Mirror
		want    string
	}{
		{nil, "0"},
		{[]Mirror{{FlowID: "a", State: "live", Rebuilds: 2}}, "2"},
		{[]Mirror{{FlowID: "a", State: "live", Rebuilds: 3}, {FlowID: "b", State: "absent", Rebuilds: 1}}, "4"},
		{[]Mirror{{FlowID: "b", State: "live", Rebuilds: 1}}, "4"},
		{[]Mirror{{FlowID: "a", State: "live", Rebuilds: 1}, {FlowID: "b", State: "live", Rebuilds: 2}}, "6"},
	} {
		if got := set(c.mirrors...); got != c.want {
			t.Errorf("step %d: %s, want %s", i, got, c.want)
		}
	}
}

func TestBucketsWithOtherBounds(t *testing.T) {
	a := Buckets{Bounds: []float64{1, 2}, Counts: []uint64{1, 1, 1}, Sum: 5}
	b := Buckets{Bounds: []float64{0.5, 1.5, 9}, Counts: []uint64{10, 20, 30, 40}, Sum: 7, Max: 3}
	got := a.plus(b)
	want := Buckets{Bounds: []float64{1, 2}, Counts: []uint64{11, 21, 71}, Sum: 12, Max: 3}
	if diff := cmp.Diff(want, got); diff != "" || a.Counts[0] != 1 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestServeHTTP(t *testing.T) {
	p := page()
	p.Set(populated())
	server := httptest.NewServer(p)
	defer server.Close()
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") != ContentType || resp.ContentLength != int64(body.Len()) || len(resp.TransferEncoding) != 0 {
		t.Errorf("%v, length %d of %d", resp.Header, resp.ContentLength, body.Len())
	}
	for _, want := range []string{"go_goroutines ", "go_gc_heap_live_bytes ", "process_resident_memory_bytes ", "go_build_info{", "# HELP " + Prefix + "info "} {
		if !strings.Contains(body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

// BenchmarkPage renders 500 flows, half of them audio, and 20 peers.
func BenchmarkPage(b *testing.B) {
	p := New()
	s := populated()
	wide := Buckets{Sum: 1, Max: 1}
	for i := range 16 {
		wide.Bounds, wide.Counts = append(wide.Bounds, float64(i+1)/100), append(wide.Counts, uint64(i))
	}
	wide.Counts = append(wide.Counts, 0)
	for i := range 500 {
		id := fmt.Sprintf("5fbec3b1-1b0f-417d-9059-%012d", i)
		s.Replications = append(s.Replications, Replication{FlowID: id, Peer: "node-a", Role: "destination", Provider: "tcp", State: "active"})
		s.Mirrors = append(s.Mirrors, Mirror{DomainID: "5fbec3b1-1b0f-417d-9059-8b94a47197ed", FlowID: id, Peer: "node-a", State: "live"})
		s.Lanes = append(s.Lanes, Lane{Key: id, FlowID: id, Role: "destination", Provider: "tcp", Continuous: i%2 == 0, AgeDelivered: wide, DeliveryGap: wide})
	}
	p.Set(s)
	for b.Loop() {
		if _, err := p.Text(); err != nil {
			b.Fatal(err)
		}
	}
	text, err := p.Text()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(text)), "bytes/page")
}

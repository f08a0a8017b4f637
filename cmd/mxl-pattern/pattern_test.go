package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/cmd/mxl-pattern/pattern"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

func TestWriteThenReadEveryFormat(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		read  []string
		count uint64
	}{
		"v210":               {small, nil, 40},
		"v210 of odd width":  {[]string{"--width", "200", "--height", "11", "--rate", "60000/1001", "--ring-history", "4s"}, nil, 40},
		"v210a":              {append([]string{"--format", "v210a", "--slices", "4"}, small...), nil, 40},
		"v210a, odd key":     {[]string{"--format", "v210a", "--width", "1280", "--height", "9", "--slices", "9", "--ring-history", "4s"}, []string{"--partial"}, 40},
		"interlaced":         {append([]string{"--rate", "25", "--interlace", "tff"}, small...), nil, 40},
		"smpte291":           {[]string{"--format", "smpte291", "--ring-history", "4s"}, nil, 40},
		"smpte291 in slices": {[]string{"--format", "smpte291", "--slices", "5", "--ring-history", "4s"}, []string{"--partial"}, 40},
		"audio":              {[]string{"--format", "audio", "--channels", "16", "--batch", "48", "--ring-history", "4s"}, nil, 38400},
		"audio, float64":     {[]string{"--format", "audio", "--bit-depth", "64", "--sample-rate", "44100", "--batch", "441", "--ring-history", "4s"}, []string{"--behind", "441"}, 35280},
		"behind":             {small, []string{"--behind", "3"}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			domain, id := testRoot(t), uuid.NewString()
			stop := writing(t, append(c.args, "--flow-id", id, domain)...)
			got := reading(t, exitOK, append(c.read, "--count", fmt.Sprint(c.count), "--duration", "20s", "--no-invalid", domain, id)...)
			wrote := stop()
			if got.Bad+got.Lost+got.Invalid+got.HeadWentBack+got.Reopened+got.Incomplete != 0 || got.Verified < c.count || got.Rate == 0 || got.Bytes == 0 {
				t.Errorf("read %+v", got)
			}
			if got.Inode != wrote.Inode || len(got.Inodes) != 1 || got.FirstIndex < wrote.FirstIndex-wrote.FirstIndex%1000 || got.LastIndex > wrote.LastIndex {
				t.Errorf("read %+v\nwrote %+v", got, wrote)
			}
			if got.LatencyP50MS <= 0 || got.LatencyP99MS < got.LatencyP50MS || got.LatencyMaxMS < got.LatencyP99MS-1 || got.LatencyMeanMS <= 0 {
				t.Errorf("latencies %+v", got)
			}
			if !wrote.Deleted {
				t.Error("the flow was left behind")
			}
			if strings.Contains(name, "slices") || strings.Contains(name, "odd key") {
				if got.Partial == 0 {
					t.Error("no partial commit was seen")
				}
			}
		})
	}
}

func TestReadCountsWhatTheWriterDoes(t *testing.T) {
	for name, c := range map[string]struct {
		write, read []string
		count       uint64
		code        int
		want        func(readTotals, writeTotals) bool
	}{
		"skipped indexes are lost": {[]string{"--skip-every", "6"}, nil, 80, exitFailed,
			func(r readTotals, w writeTotals) bool { return r.Gaps > 5 && r.Lost == r.Gaps && w.Skipped > 0 }},
		"skipped indexes are allowed": {[]string{"--skip-every", "10", "--skip-length", "3"}, []string{"--allow-gaps"}, 80, exitOK,
			func(r readTotals, _ writeTotals) bool { return r.Gaps > 15 && r.Gaps < 35 && r.Lost == 0 }},
		"a jump": {[]string{"--jump-at", "40", "--jump-by", "500"}, []string{"--allow-gaps"}, 80, exitOK,
			func(r readTotals, w writeTotals) bool {
				// Grains that were not read yet when the jump came are passed over with it.
				return r.Jumps == 1 && r.Gaps >= 499 && r.Gaps <= 499+40 && r.Lost == 0 && w.Jumps == 1
			}},
		"a jump back": {[]string{"--jump-at", "40", "--jump-by", "-500"}, nil, 80, exitOK,
			func(r readTotals, _ writeTotals) bool { return r.HeadWentBack == 1 && r.Lost == 0 && r.Bad == 0 }},
		"invalid grains": {[]string{"--invalid-every", "5"}, nil, 80, exitOK,
			func(r readTotals, w writeTotals) bool { return r.Invalid > 5 && r.Lost == 0 && w.Invalid > 5 }},
		"invalid grains are not allowed": {[]string{"--invalid-every", "5"}, []string{"--no-invalid"}, 80, exitFailed,
			func(r readTotals, _ writeTotals) bool { return r.Invalid > 5 }},
		"a flow created again": {[]string{"--recreate-after", "500ms"}, nil, 80, exitOK,
			func(r readTotals, w writeTotals) bool {
				return r.Reopened == 1 && len(r.Inodes) == 2 && r.Inode == w.Inode && w.Recreated == 1 && r.Bad == 0
			}},
		"audio batches that were skipped": {[]string{"--format", "audio", "--skip-every", "9"}, []string{"--allow-gaps"}, 48000, exitOK,
			func(r readTotals, _ writeTotals) bool { return r.Gaps >= 480 && r.Gaps%480 == 0 && r.Bad == 0 }},
		"an audio jump": {[]string{"--format", "audio", "--jump-at", "60", "--jump-by", "500000"}, []string{"--allow-gaps"}, 48000, exitOK,
			func(r readTotals, _ writeTotals) bool {
				// Batches that were not read yet when the jump came are passed over with it.
				return r.Jumps == 1 && r.Gaps >= 500000 && (r.Gaps-500000)%480 == 0 && r.Bad == 0 && r.Lost == 0
			}},
		"an audio flow created again": {[]string{"--format", "audio", "--recreate-after", "500ms"}, nil, 48000, exitOK,
			func(r readTotals, _ writeTotals) bool { return r.Reopened == 1 && len(r.Inodes) == 2 && r.Bad == 0 }},
		"too slow": {nil, []string{"--require-rate", "1000000"}, 80, exitFailed,
			func(r readTotals, _ writeTotals) bool { return r.Lost == 0 && r.Bad == 0 }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			domain, id := testRoot(t), uuid.NewString()
			stop := writing(t, append(append(c.write, small...), "--flow-id", id, domain)...)
			got := reading(t, c.code, append(c.read, "--count", fmt.Sprint(c.count), "--duration", "20s", domain, id)...)
			if wrote := stop(); !c.want(got, wrote) {
				t.Errorf("read %+v\nwrote %+v", got, wrote)
			}
		})
	}
}

func TestReadFindsOneWrongByteAndOneWrongSample(t *testing.T) {
	t.Run("grain", func(t *testing.T) {
		w := ownWriter(t, essence{format: "v210", width: 96, height: 54, interlace: "progressive", rate: mxl.Rational{Numerator: 50, Denominator: 1}})
		ring, _, err := w.domain.CreateDiscreteWriter(w.def, mxl.FlowOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer ring.Release()
		payload, first := grainPattern(w.parsed), w.parsed.Rate.IndexAt(mxl.Now())
		got := readWhile(t, exitFailed, w, []string{"--count", "30"}, func(n uint64) {
			dst, err := ring.OpenGrain(first + n)
			if err != nil {
				t.Error(err)
				return
			}
			fillSlices(ring, payload, dst, first+n, 0, ring.TotalSlices())
			if n%20 == 10 {
				dst[6001] ^= 1
			}
			if err := ring.Commit(first+n, ring.TotalSlices(), 0); err != nil {
				t.Error(err)
			}
		})
		if got.BadGrains == 0 || got.BadGrains > 3 || got.Grains+got.BadGrains != 30 || !strings.Contains(got.FirstBad, "byte 6001") {
			t.Errorf("read %+v", got)
		}
	})
	t.Run("sample", func(t *testing.T) {
		w := ownWriter(t, essence{format: "audio", channels: 4, bitDepth: 32, rate: mxl.Rational{Numerator: 48000, Denominator: 1}})
		w.options.batch = 480
		w.options.hints = mxl.FlowOptions{MaxCommitBatchSizeHint: 480, MaxSyncBatchSizeHint: 480}
		ring, _, err := w.domain.CreateContinuousWriter(w.def, w.options.hints)
		if err != nil {
			t.Fatal(err)
		}
		defer ring.Release()
		first := w.parsed.Rate.IndexAt(mxl.Now())
		wrong := uint64(0)
		got := readWhile(t, exitFailed, w, []string{"--count", "9600"}, func(n uint64) {
			index := first + 480*(n+1)
			window, err := ring.OpenSamples(index, 480)
			if err != nil {
				t.Error(err)
				return
			}
			fillWindow(ring, pattern.NewSamples(w.parsed.ID), window, index-480)
			if n%15 == 8 {
				run, _ := windowBytes(ring, window, 2)
				run[3] ^= 0x40
				wrong++
			}
			if err := ring.Commit(index, 480); err != nil {
				t.Error(err)
			}
		})
		if got.BadSamples == 0 || got.BadSamples > wrong || got.Lost != 0 || !strings.HasPrefix(got.FirstBad, "sample ") {
			t.Errorf("read %+v", got)
		}
	})
}

func ownWriter(t *testing.T, e essence) *writer {
	t.Helper()
	e.id, e.label = uuid.New(), "test"
	def, err := e.definition()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := mxl.ParseFlowDef(def)
	if err != nil {
		t.Fatal(err)
	}
	s := site{path: testRoot(t), history: time.Second}
	if err := s.prepare(); err != nil {
		t.Fatal(err)
	}
	domain, err := mxl.OpenDomain(s.path)
	if err != nil {
		t.Fatal(err)
	}
	return &writer{domain: domain, def: def, parsed: parsed}
}

// readWhile reads the flow of w while write is called with 0, 1, 2 … every few milliseconds.
func readWhile(t *testing.T, code int, w *writer, args []string, write func(n uint64)) readTotals {
	t.Helper()
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				return
			case <-tick.C:
				write(n)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	return reading(t, code, append(args, "--duration", "20s", w.domain.Path(), w.parsed.ID.String())...)
}

func TestFastWriterReachesItsCount(t *testing.T) {
	domain, id := testRoot(t), uuid.NewString()
	code, out, stderr := call(t, context.Background(), append(append([]string{"write", "--json", "--fast", "--count", "1000", "--keep", "--flow-id", id}, small...), domain)...)
	var w writeTotals
	if err := json.Unmarshal([]byte(out), &w); code != exitOK || err != nil || w.Grains != 1000 || w.Deleted || w.LastIndex-w.FirstIndex != 999 {
		t.Fatalf("exit %d: %s %s %v", code, out, stderr, err)
	}
	if _, err := os.Stat(filepath.Join(domain, id+".mxl-flow", "data")); err != nil {
		t.Errorf("--keep: %v", err)
	}
	// Another writer opens what was kept.
	code, out, stderr = call(t, context.Background(), append(append([]string{"write", "--json", "--fast", "--count", "10", "--flow-id", id}, small...), domain)...)
	var again writeTotals
	if err := json.Unmarshal([]byte(out), &again); code != exitOK || err != nil || again.Inode != w.Inode || !again.Deleted || !strings.HasPrefix(stderr, "opened flow") {
		t.Errorf("exit %d: %s %s %v", code, out, stderr, err)
	}
	code, out, _ = call(t, context.Background(), "write", "--json", "--fast", "--format", "audio", "--count", "48000", "--flow-id", uuid.NewString(), domain)
	if err := json.Unmarshal([]byte(out), &again); code != exitOK || err != nil || again.Samples != 48000 || again.Commits != 100 {
		t.Errorf("exit %d: %s %v", code, out, err)
	}
}

func TestWriteMakesTheDomain(t *testing.T) {
	root := testRoot(t)
	domain := filepath.Join(root, "x", "studio")
	args := append([]string{"write", "--fast", "--count", "5", "--domain-id", "dom-1", "--label", "Studio 1"}, small...)
	if code, _, stderr := call(t, context.Background(), append(args, domain)...); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	d, err := mxl.OpenDomain(domain)
	if err != nil {
		t.Fatal(err)
	}
	def, err := d.Definition()
	if err != nil || def.ID != "dom-1" || def.Label != "Studio 1" || def.Description == "" || d.HistoryNS() != 4e9 {
		t.Errorf("definition %+v, %v, history %d", def, err, d.HistoryNS())
	}
	// What is there already stays.
	if code, _, _ := call(t, context.Background(), "write", "--fast", "--count", "1", "--domain-id", "dom-2", "--history-ms", "300", "--width", "96", "--height", "54", domain); code != exitOK {
		t.Fatal(code)
	}
	if again, err := d.Definition(); err != nil || again.ID != "dom-1" {
		t.Errorf("definition %+v, %v", again, err)
	}
	if d, err = mxl.OpenDomain(domain); err != nil || d.HistoryNS() != 4e9 {
		t.Errorf("history %d, %v", d.HistoryNS(), err)
	}
	entries, err := os.ReadDir(domain)
	if err != nil || len(entries) != 2 {
		t.Errorf("the domain holds %v, %v", entries, err)
	}
}

func TestRate(t *testing.T) {
	domain := testRoot(t)
	video, audio := uuid.NewString(), uuid.NewString()
	writing(t, append(small, "--skip-every", "10", "--skip-length", "3", "--flow-id", video, domain)...)
	writing(t, "--format", "audio", "--batch", "48", "--flow-id", audio, domain)
	type result struct {
		rateTotals
		code int
	}
	measure := func(flow, least string) result {
		code, out, stderr := call(t, context.Background(), "rate", "--json", "--duration", "1500ms", "--min", least, domain, flow)
		r := result{code: code}
		if err := json.Unmarshal([]byte(out), &r.rateTotals); err != nil {
			t.Fatalf("%q %q: %v", out, stderr, err)
		}
		return r
	}
	share := func(r result) float64 { return float64(r.Count) / float64(r.Indexes) }
	if r := measure(video, "1"); r.code != exitOK || r.Count == 0 || share(r) < 0.6 || share(r) > 0.9 || r.Rate*r.Seconds < float64(r.Count)*0.99 {
		t.Errorf("video %+v: 10 of 13 indexes are written", r)
	}
	if r := measure(video, "1000000"); r.code != exitFailed {
		t.Errorf("video %+v", r)
	}
	if r := measure(audio, "1"); r.code != exitOK || r.Count == 0 || r.Count != r.Indexes || r.Count%48 != 0 {
		t.Errorf("audio %+v", r)
	}
}

func TestInfo(t *testing.T) {
	root := testRoot(t)
	domain, id := filepath.Join(root, "studio"), uuid.NewString()
	writing(t, append(small, "--domain-id", "dom-1", "--flow-id", id, domain)...)
	reading(t, exitOK, "--count", "3", domain, id)
	if err := os.MkdirAll(filepath.Join(root, "broken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "broken", "domain_def.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{root, domain} {
		code, out, stderr := call(t, context.Background(), "info", path)
		for _, want := range []string{"dom-1", id, "video/v210", "96x54 progressive", "50/1", "live", "ring 200"} {
			if code != exitOK || !strings.Contains(out, want) {
				t.Errorf("info %s: exit %d, no %q in %s%s", path, code, want, out, stderr)
			}
		}
		code, out, _ = call(t, context.Background(), "info", "--json", path)
		var info rootInfo
		if err := json.Unmarshal([]byte(out), &info); code != exitOK || err != nil || len(info.Domains) != 1 || len(info.Domains[0].Flows) != 1 {
			t.Fatalf("info --json %s: exit %d, %s, %v", path, code, out, err)
		}
		if f := info.Domains[0].Flows[0]; f.ID != id || !f.Active || !f.Live || f.Head == 0 || f.Ring != 200 || f.Reason != "" {
			t.Errorf("flow %+v", f)
		}
		if want := map[bool]int{true: 1, false: 0}[path == root]; len(info.Problems) != want {
			t.Errorf("problems %q", info.Problems)
		}
	}
	bare := filepath.Join(root, "bare")
	writing(t, append(small, "--flow-id", id, bare)...)
	awaitPath(t, filepath.Join(bare, id+".mxl-flow"))
	if code, out, _ := call(t, context.Background(), "info", bare); code != exitOK || !strings.Contains(out, "(no domain_def.json)") || !strings.Contains(out, id) {
		t.Errorf("a domain without definition: exit %d, %s", code, out)
	}
	if code, _, _ := call(t, context.Background(), "info", filepath.Join(root, "nonexistent")); code != exitFailed {
		t.Errorf("no such path: exit %d", code)
	}
}

func TestHeadMove(t *testing.T) {
	p50 := mxl.Rational{Numerator: 50, Denominator: 1}
	const second = 1_000_000_000
	for name, c := range map[string]struct {
		last, now, elapsed uint64
		back, jump         bool
	}{
		"first look":         {0, 1000, 0, false, false},
		"no move":            {1000, 1000, second, false, false},
		"next":               {1000, 1001, second / 50, false, false},
		"a burst":            {1000, 1012, 0, false, false},
		"after a long sleep": {1000, 1100, 2 * second, false, false},
		"a jump":             {1000, 1500, second / 50, false, true},
		"back":               {1000, 999, second / 50, true, false},
	} {
		if back, jump := headMove(c.last, c.now, second, second+c.elapsed, p50, 10); back != c.back || jump != c.jump {
			t.Errorf("%s: back %v, jump %v", name, back, jump)
		}
	}
}

func TestPacerIsNeverEarlyAndEndsWithItsContext(t *testing.T) {
	done := make(chan struct{})
	go func() { // the pacer keeps its thread
		defer close(done)
		p := newPacer(false)
		for range 5 {
			at := mxl.Now() + uint64(3*time.Millisecond)
			if !p.until(context.Background(), at) || mxl.Now() < at {
				t.Error("early")
			}
		}
		if !p.until(context.Background(), mxl.Now()-1) {
			t.Error("the past ended the run")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		if p.until(ctx, mxl.Now()+uint64(time.Hour)) {
			t.Error("slept for an hour")
		}
		if q := newPacer(true); !q.until(context.Background(), mxl.Now()+uint64(time.Hour)) {
			t.Error("a fast pacer ended")
		}
	}()
	<-done
}

func TestDefinitionsAreValid(t *testing.T) {
	p25 := mxl.Rational{Numerator: 25, Denominator: 1}
	for _, e := range []essence{
		{format: "v210", width: 1920, height: 1080, interlace: "progressive", rate: p25},
		{format: "v210a", width: 1280, height: 720, interlace: "progressive", rate: p25},
		{format: "v210", width: 1920, height: 1080, interlace: "bff", rate: p25},
		{format: "smpte291", rate: p25},
		{format: "audio", channels: 64, bitDepth: 64, rate: mxl.Rational{Numerator: 96000, Denominator: 1}},
	} {
		e.id, e.label = uuid.New(), "x"
		text, err := e.definition()
		if err != nil {
			t.Errorf("%+v: %v", e, err)
			continue
		}
		if def, err := mxl.ParseFlowDef(text); err != nil || def.ID != e.id {
			t.Errorf("%s: %v", text, err)
		}
	}
}

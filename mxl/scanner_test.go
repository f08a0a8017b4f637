package mxl

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

func TestScannerSeesWhatAnInventoryNeeds(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "studio", `{"id":"dom-1","label":"Studio 1"}`)
	scanPut(t, filepath.Join(root, "studio", nameOptions), `{"urn:x-mxl:option:history_duration/v1.0": 100000000, "other": 1}`)
	d, err := OpenDomain(d.Path())
	if err != nil {
		t.Fatal(err)
	}
	id, audio := uuid.New(), uuid.New()
	w := scanTestFlow(t, d, id)
	now := Rational{50, 1}.IndexAt(Now())
	scanTestGrain(t, w, now)
	aw, _, err := d.CreateContinuousWriter(scanTestAudioDef(audio), FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer aw.Close()

	snap, err := ScanRoot(root, "here")
	if err != nil {
		t.Fatal(err)
	}
	if len(snap.Domains) != 1 || len(snap.Problems) != 0 || snap.Revision != 1 {
		t.Fatalf("snapshot %+v", snap)
	}
	got := snap.Domains[0]
	if got.ID != "dom-1" || got.Label != "Studio 1" || got.Class != DomainLocal || got.Directory != "studio" || got.HistoryNS != 100_000_000 ||
		!strings.Contains(string(got.Options), `"other": 1`) || got.Path != filepath.Join(root, "studio") {
		t.Errorf("domain %+v", got)
	}
	f := got.Flow(id)
	if f == nil || !f.Active || !f.Live || f.RingDepth != 5 || f.PayloadSize != 4096 || f.HeadIndex != now || f.Inode != w.Inode() ||
		f.Format != FormatData || f.MediaType != "video/smpte291" || f.Rate != (Rational{50, 1}) || !f.Replicable() ||
		string(f.Definition) != string(scanTestDataDef(id)) || f.Def == nil {
		t.Errorf("data flow %+v", f)
	}
	a := got.Flow(audio)
	if a == nil || !a.Active || a.Live || a.RingDepth != aw.BufferLength() || a.PayloadSize != 8 || a.HeadIndex != 0 || !a.Replicable() {
		t.Errorf("audio flow %+v", a)
	}
	w.Close()
	snap, err = ScanRoot(root, "here")
	if f := snap.Domains[0].Flow(id); err != nil || f.Active || f.Live {
		t.Errorf("after the writer closed: %+v, %v", f, err)
	}
}

// The interval is an hour: only events can be why the scanner sees anything.
func TestScannerSeesNewAndRemovedFlowsByEvents(t *testing.T) {
	root := scanTestRoot(t)
	s, _ := scanTestRun(t, root, time.Hour)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	scanAwait(t, s, "new domain", func(s *Snapshot) bool { return s.Domain("dom-1", DomainLocal) != nil })

	var slowest time.Duration
	for range 5 {
		id := uuid.New()
		w := scanTestFlow(t, d, id)
		published := time.Now()
		snap := scanAwait(t, s, "new flow", scanHasFlow("dom-1", id))
		slowest = max(slowest, time.Since(published))
		if f := snap.Domains[0].Flow(id); !f.Active || f.Inode != w.Inode() || f.Reason != "" {
			t.Errorf("first sight of a new flow: %+v", f)
		}
	}
	t.Logf("slowest of 5 new flows was seen after %v", slowest)
	if slowest > time.Second { // 20 ms on a quiet machine; the bound is for a loaded one
		t.Errorf("a new flow was seen after %v", slowest)
	}

	id := uuid.New()
	w := scanTestFlow(t, d, id)
	first := scanAwait(t, s, "flow", scanHasFlow("dom-1", id)).Domains[0].Flow(id).Inode
	if deleted, err := w.Release(); !deleted || err != nil {
		t.Fatalf("Release = %v, %v", deleted, err)
	}
	scanAwait(t, s, "removed flow", func(s *Snapshot) bool { return !scanHasFlow("dom-1", id)(s) })
	scanTestFlow(t, d, id)
	if again := scanAwait(t, s, "flow again", scanHasFlow("dom-1", id)).Domains[0].Flow(id).Inode; again == first {
		t.Errorf("inode %d of the flow created again is that of the first", again)
	}
	if err := os.RemoveAll(d.Path()); err != nil {
		t.Fatal(err)
	}
	scanAwait(t, s, "removed domain", func(s *Snapshot) bool { return len(s.Domains) == 0 })
}

func TestScannerSeesAWriterDieAndAFlowComeAlive(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	w := scanTestFlow(t, d, id)
	s, _ := scanTestRun(t, root, 20*time.Millisecond)
	flow := func(s *Snapshot) *FlowRecord { return s.Domains[0].Flow(id) }
	scanAwait(t, s, "active flow", func(s *Snapshot) bool { return flow(s).Active && !flow(s).Live })
	scanTestGrain(t, w, Rational{50, 1}.IndexAt(Now()))
	scanAwait(t, s, "live flow", func(s *Snapshot) bool { return flow(s).Live })
	w.Close() // the files stay, as after SIGKILL
	scanAwait(t, s, "inactive flow", func(s *Snapshot) bool { return !flow(s).Active && !flow(s).Live })
}

func TestRevisionRisesWithContentAndNotWithHeads(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	w := scanTestFlow(t, d, id)
	now := Rational{50, 1}.IndexAt(Now())
	scanTestGrain(t, w, now)
	s, _ := scanTestRun(t, root, 5*time.Millisecond)
	before := s.Snapshot()
	if before.Revision != 1 {
		t.Fatalf("first revision is %d", before.Revision)
	}
	scanTestGrain(t, w, now+1)
	scanWaitFor(t, "head in the snapshot", func() bool { snap := s.Snapshot(); return snap.Domains[0].Flows[0].HeadIndex == now+1 })
	if snap := s.Snapshot(); snap.Revision != 1 {
		t.Errorf("revision is %d after a head moved", snap.Revision)
	}
	scanPut(t, filepath.Join(d.Path(), nameOptions), `{"x":1}`)
	scanAwait(t, s, "options", func(s *Snapshot) bool { return s.Revision == 2 && string(s.Domains[0].Options) == `{"x":1}` })
	if string(before.Domains[0].Options) != "{}" || before.Domains[0].Flows[0].HeadIndex != now {
		t.Error("a snapshot changed after it was handed out")
	}
}

func TestHeadIndexesAreThoseOfTheMoment(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	m := scanTestDomain(t, root, "mirror-x", `{"id":"x","x-mxl-fabrics-agent":{"mirror":true,"owner_host_id":"here"}}`)
	id, other := uuid.New(), uuid.New()
	w := scanTestFlow(t, d, id)
	scanTestFlow(t, m, other)
	s, _ := scanTestRun(t, root, time.Hour)
	snap := s.Snapshot()
	rec := snap.Domain("dom-1", DomainLocal)
	key := rec.Key(rec.Flow(id))
	for i := range uint64(3) {
		now := Now()
		head := Rational{50, 1}.IndexAt(now) + i
		scanTestGrain(t, w, head)
		if got := s.HeadIndexes(now, DomainLocal)[key]; got != (HeadIndex{head, true}) {
			t.Errorf("head %+v, want %d and live", got, head)
		}
		if got := s.HeadIndexes(now + 10_000_000_000)[key]; got.Live {
			t.Error("a head 10 s old is live")
		}
	}
	if all, local := s.HeadIndexes(Now()), s.HeadIndexes(Now(), DomainLocal); len(all) != 2 || len(local) != 1 {
		t.Errorf("%d heads, %d local ones", len(all), len(local))
	}
	if _, err := w.Release(); err != nil {
		t.Fatal(err)
	}
	scanWaitFor(t, "the removed flow to have no head", func() bool { _, ok := s.HeadIndexes(Now())[key]; return !ok })
}

func TestScannerWithoutEventsFallsBackAndSaysSoOnce(t *testing.T) {
	for name, change := range map[string]func(*Scanner){
		"no instance": func(s *Scanner) {
			s.openWatcher = func() (*fsnotify.Watcher, error) { return nil, unix.EMFILE }
		},
		"no watches": func(s *Scanner) {
			s.addWatch = func(*fsnotify.Watcher, string) error { return unix.ENOSPC }
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := scanTestRoot(t)
			s, log := scanTestRun(t, root, 10*time.Millisecond, change)
			if snap := s.Snapshot(); !strings.Contains(snap.Notice, "fs.inotify.max_user_") {
				t.Errorf("notice %q names no limit", snap.Notice)
			}
			d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
			id := uuid.New()
			scanTestFlow(t, d, id)
			scanAwait(t, s, "flow found by the rescan", scanHasFlow("dom-1", id))
			scanWaitFor(t, "the limit in the log", func() bool { return log.count("scan_events_unavailable") > 0 })
			if n := log.count("scan_events_unavailable"); n != 1 {
				t.Errorf("said %d times:\n%s", n, log)
			}
		})
	}
}

func TestScannerWatchesAgainWhenWatchesAreToBeHad(t *testing.T) {
	root := scanTestRoot(t)
	scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	refuse := make(chan bool, 1)
	refuse <- true
	s, _ := scanTestRun(t, root, 10*time.Millisecond, func(s *Scanner) {
		s.addWatch = func(w *fsnotify.Watcher, path string) error {
			no := <-refuse
			refuse <- no
			if no {
				return unix.ENOSPC
			}
			return w.Add(path)
		}
	})
	if s.Snapshot().Notice == "" {
		t.Fatal("no notice")
	}
	<-refuse
	refuse <- false
	scanAwait(t, s, "notice over", func(s *Snapshot) bool { return s.Notice == "" })
}

func TestScannerRootGoesAndComes(t *testing.T) {
	parent := scanTestRoot(t)
	root := filepath.Join(parent, "mxl")
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	w := scanTestFlow(t, d, id)
	s, log := scanTestRun(t, root, 10*time.Millisecond)
	scanAwait(t, s, "flow", scanHasFlow("dom-1", id))
	w.Close()
	if err := os.RemoveAll(root); err != nil {
		t.Fatal(err)
	}
	scanAwait(t, s, "root gone", func(s *Snapshot) bool { return len(s.Domains) == 0 && len(s.Problems) == 1 })
	if n := len(s.HeadIndexes(Now())); n != 0 {
		t.Errorf("%d heads without a root", n)
	}
	d = scanTestDomain(t, root, "b", `{"id":"dom-2"}`)
	other := uuid.New()
	scanTestFlow(t, d, other)
	scanAwait(t, s, "root back", func(s *Snapshot) bool { return scanHasFlow("dom-2", other)(s) && len(s.Problems) == 0 })
	scanWaitFor(t, "end of the fault in the log", func() bool { return log.count("scan_fault_over") == 1 })
	if log.count("domain_not_usable") != 1 {
		t.Errorf("log:\n%s", log)
	}
}

func TestScannerKeepsADomainWhileItsDefinitionIsRewritten(t *testing.T) {
	root := scanTestRoot(t)
	scanTestDomain(t, root, "a", `{"id":"dom-1","label":"old"}`)
	s, log := scanTestRun(t, root, 5*time.Millisecond)
	path := filepath.Join(root, "a", nameDomainDef)
	scanPut(t, path, `{"id":"dom-1","la`) // half of it
	number := s.Snapshot().Taken
	scanWaitFor(t, "another scan", func() bool { return s.Snapshot().Taken.After(number.Add(20 * time.Millisecond)) })
	if snap := s.Snapshot(); snap.Domain("dom-1", DomainLocal) == nil {
		t.Fatalf("the domain went: %+v", snap)
	}
	scanPut(t, path, `{"id":"dom-1","label":"new"}`)
	scanAwait(t, s, "new label", func(s *Snapshot) bool { return s.Domains[0].Label == "new" })
	scanPut(t, path, `{"id":`)
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	scanAwait(t, s, "definition that stays broken", func(s *Snapshot) bool { return len(s.Domains) == 0 && len(s.Problems) == 1 })
	scanWaitFor(t, "the fault in the log", func() bool { return log.count("domain_not_usable") > 0 })
	if n := log.count("domain_not_usable"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log)
	}
}

func TestScannerConfiguration(t *testing.T) {
	for name, cfg := range map[string]ScannerConfig{
		"no root":        {},
		"tiny interval":  {Root: "/dev/shm", Interval: time.Nanosecond},
		"negative pause": {Root: "/dev/shm", Interval: -time.Second},
	} {
		if _, err := NewScanner(cfg); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	file := filepath.Join(scanTestRoot(t), "file")
	scanPut(t, file, "")
	for _, root := range []string{file, filepath.Join(file, "none"), "/nonexistent/root"} {
		s, err := NewScanner(ScannerConfig{Root: root})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(context.Background()); err == nil || !strings.Contains(err.Error(), root) {
			t.Errorf("Run on %s: %v", root, err)
		}
		if s.Snapshot().Revision != 0 {
			t.Error("a revision without a scan")
		}
	}
}

func TestRescanOnDemand(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	id := uuid.New()
	w := scanTestFlow(t, d, id)
	s, _ := scanTestRun(t, root, time.Hour)
	w.Close() // gives no event
	s.Rescan()
	scanAwait(t, s, "inactive flow", func(s *Snapshot) bool { return !s.Domains[0].Flow(id).Active })
}

func TestScannerUnderConcurrentUse(t *testing.T) {
	root := scanTestRoot(t)
	d := scanTestDomain(t, root, "a", `{"id":"dom-1"}`)
	s, _ := scanTestRun(t, root, time.Millisecond)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 4)
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				snap := s.Snapshot()
				if len(snap.Domains) > 1 {
					t.Error("more domains than there are")
				}
				s.HeadIndexes(Now())
				s.Rescan()
			}
		}()
	}
	for range 30 {
		id := uuid.New()
		w, _, err := d.CreateDiscreteWriter(scanTestDataDef(id), FlowOptions{})
		// The scanner asks for the lock of every flow all the time: creation and release have to live with it.
		if err != nil {
			t.Errorf("create under probing: %v", err)
			break
		}
		scanTestGrain(t, w, 7)
		w.Close()
		if err := os.RemoveAll(filepath.Join(d.Path(), FlowDirName(id))); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	s.heads.mu.RLock()
	if n := len(s.heads.open); n > scanHeadFiles {
		t.Errorf("%d files are open", n)
	}
	s.heads.mu.RUnlock()
	cancel()
	for range 4 {
		<-done
	}
	scanAwait(t, s, "empty domain", func(s *Snapshot) bool { return len(s.Domains) == 1 && len(s.Domains[0].Flows) == 0 })
}

// scanWaitFor polls a condition that gives no event.
func scanWaitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within 10 s", what)
		}
	}
}

func TestScannerLeavesTheFlowsOfOurMirrorsToTheirMaker(t *testing.T) {
	root := scanTestRoot(t)
	ours := `{"id":"x","x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"far","owner_host_id":"here"}}`
	scanTestFlow(t, scanTestDomain(t, root, "studio", `{"id":"dom-1"}`), uuid.New())
	scanTestFlow(t, scanTestDomain(t, root, "mirror-x", ours), uuid.New())
	for skip, want := range map[bool]int{false: 1, true: 0} {
		st, err := newScanState(root, "here", Now)
		if err != nil {
			t.Fatal(err)
		}
		defer st.close()
		st.skipMirrors = skip
		st.all()
		snap := st.snapshot()
		local, mirror := snap.Domain("dom-1", DomainLocal), snap.Domain("x", DomainMirror)
		if local == nil || len(local.Flows) != 1 || mirror == nil || len(mirror.Flows) != want {
			t.Errorf("skip %v: %+v", skip, snap.Domains)
		}
	}
}

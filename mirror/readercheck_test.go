package mirror

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// watching makes a room with one mirror flow and what to look for.
func watching(t testing.TB) (*Room, Key) {
	r := openRoom(t, shmRoot(t))
	o := origin("data", 1)
	mustEnsure(t, r, o)
	return r, o.Key
}

func TestReadersAreFoundByDeviceAndInode(t *testing.T) {
	r, k := watching(t)
	audio := origin("audio", 2)
	mustEnsure(t, r, audio)
	for _, file := range []string{
		flowPath(r, k, "data"), flowPath(r, k, "access"), flowPath(r, k, "grains", "data.0"), flowPath(r, k, "grains", "data.9"),
		flowPath(r, k, "flow_def.json"),
	} {
		p := fakeProc(t, map[int]string{300: mapsOf(t, file), 20: mapsOf(t, file), 21: "7f00-7f01 r--s 0 00:ff 1 /x\n"})
		report := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf}).Scan(t.Context(), r.Watched())
		if !report.Known || !slices.Equal(report.Flow(k), []Reader{{20, "reader"}, {300, "reader"}}) {
			t.Errorf("%s: %+v", file, report)
		}
		if len(report.Flow(audio.Key)) != 0 || !report.FlowFacts(audio.Key).Known {
			t.Errorf("%s: the other flow: %+v", file, report.FlowFacts(audio.Key))
		}
		if got := report.Domain(testDomain); len(got) != 2 {
			t.Errorf("%s: the domain: %v", file, got)
		}
	}
	p := fakeProc(t, map[int]string{20: mapsOf(t, filepath.Join(r.domainPath(testDomain), optionsFile))})
	report := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf}).Scan(t.Context(), r.Watched())
	if len(report.Flow(k)) != 0 || len(report.Domain(testDomain)) != 1 {
		t.Errorf("a file of the domain itself: %+v", report)
	}
}

func TestIncompleteSight(t *testing.T) {
	cases := []struct {
		name   string
		change func(t *testing.T, p procTree)
		why    string
	}{
		{"own PID namespace", func(t *testing.T, p procTree) {
			link := filepath.Join(p.path, "self/ns/pid")
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
			symlink(t, "pid:[4026532201]", link)
		}, "PID namespace of its own"},
		{"PID namespace not readable", func(t *testing.T, p procTree) {
			if err := os.Remove(filepath.Join(p.path, "self/ns/pid")); err != nil {
				t.Fatal(err)
			}
		}, "own PID namespace"},
		{"process 1 hidden", func(t *testing.T, p procTree) { p.remove(1) }, "hidepid"},
		{"maps that cannot be read", func(t *testing.T, p procTree) {
			p.add(50, "guarded", "")
			if err := os.Remove(filepath.Join(p.path, "50/maps")); err != nil {
				t.Fatal(err)
			}
			mkdirAll(t, filepath.Join(p.path, "50/maps"))
		}, "process 50 (guarded)"},
		{"maps that are not understood", func(t *testing.T, p procTree) { p.add(50, "strange", "not a map\n") }, "process 50 (strange): 1 lines"},
		{"no proc", func(t *testing.T, p procTree) {
			if err := os.RemoveAll(p.path); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
		{"own files are not found", func(t *testing.T, p procTree) {
			p.remove(fakeSelf)
			p.add(fakeSelf, "agent", "7f00-7f01 r--s 0 00:ff 1 /x\n")
		}, "own mirror files"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r, k := watching(t)
			p := fakeProc(t, map[int]string{20: mapsOf(t, flowPath(r, k, "data"))})
			c.change(t, p)
			report := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf}).Scan(t.Context(), r.Watched())
			if report.Known || !strings.Contains(report.Why, c.why) {
				t.Errorf("known %v, why %q", report.Known, report.Why)
			}
			if f := report.FlowFacts(k); f.Known || f.Why != report.Why {
				t.Errorf("the flow: %+v", f)
			}
			if c.name != "no proc" && len(report.Flow(k)) != 1 {
				t.Errorf("what was seen is not told: %+v", report)
			}
		})
	}
}

func TestUnreadableMapsOfAnotherUser(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root: permission is tested with a maps that is a directory (TestIncompleteSight)")
		return
	}
	r, _ := watching(t)
	p := fakeProc(t, map[int]string{50: ""})
	if err := os.Chmod(filepath.Join(p.path, "50/maps"), 0); err != nil {
		t.Fatal(err)
	}
	if report := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf}).Scan(t.Context(), r.Watched()); report.Known {
		t.Error("known")
	}
}

func TestAProcessThatEndsIsNoReader(t *testing.T) {
	r, _ := watching(t)
	p := fakeProc(t, nil)
	p.mkdir("60") // no maps any more
	p.mkdir("61/task/61")
	p.write("61/maps", "") // a kernel thread or zombie
	if report := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf}).Scan(t.Context(), r.Watched()); !report.Known {
		t.Errorf("%s", report.Why)
	}
}

func TestMainThreadThatEnded(t *testing.T) {
	r, k := watching(t)
	p := fakeProc(t, map[int]string{70: ""})
	p.mkdir("70/task/71")
	p.write("70/task/70/maps", "")
	p.write("70/task/71/maps", mapsOf(t, flowPath(r, k, "data")))
	report := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf}).Scan(t.Context(), r.Watched())
	if len(report.Flow(k)) != 1 {
		t.Errorf("%+v", report)
	}
}

func TestAFlowThatIsNewerThanTheCheck(t *testing.T) {
	r, k := watching(t)
	report := r.cfg.Readers.Scan(t.Context(), r.Watched())
	later := origin("data", 2)
	mustEnsure(t, r, later)
	if f := report.FlowFacts(later.Key); f.Known || !strings.Contains(f.Why, "newer") {
		t.Errorf("%+v", f)
	}
	if f := report.DomainFacts(testDomain, []Key{k, later.Key}); f.Known || !strings.Contains(f.Why, "newer") {
		t.Errorf("%+v", f)
	}
	if f := report.DomainFacts(testDomain, []Key{k}); !f.Known {
		t.Errorf("%+v", f)
	}
	if f := r.cfg.Readers.Latest().DomainFacts(testDomain, nil); f.Known || f.Why == "" {
		t.Errorf("before the first check: %+v", f)
	}
}

func TestACancelledScanKnowsNothing(t *testing.T) {
	r, k := watching(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report := r.cfg.Readers.Scan(ctx, r.Watched()); report.Known || !strings.Contains(report.Why, "cancelled") {
		t.Errorf("%+v", report)
	}
	if _, err := r.RemoveFlow(ctx, k, OriginMissing); err == nil || r.Held(k) == nil {
		t.Errorf("a removal after a cancelled check: %v", err)
	}
}

func TestRunChecksEveryTwoSeconds(t *testing.T) {
	p := fakeProc(t, nil)
	synctest.Test(t, func(t *testing.T) {
		c := NewReaderCheck(ReaderCheckConfig{Proc: p.path, Self: fakeSelf})
		ctx, cancel := context.WithCancel(t.Context())
		var n atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.Run(ctx, func() Watched { return Watched{} }, func(*ReaderReport) { n.Add(1) })
		}()
		time.Sleep(9 * time.Second)
		synctest.Wait()
		if got := n.Load(); got != 5 {
			t.Errorf("%d checks in 9 s", got)
		}
		if !c.Latest().Known {
			t.Error(c.Latest().Why)
		}
		cancel()
		<-done
	})
}

// TestRealReader looks at the real /proc: another process that maps a mirror is
// found, by query and by text.
func TestRealReader(t *testing.T) {
	r, k := watching(t)
	pid, stop := startMapper(t, flowPath(r, k, "grains", "data.0"))
	for _, text := range []bool{false, true} {
		c := NewReaderCheck(ReaderCheckConfig{})
		c.text = text
		report := c.Scan(t.Context(), r.Watched())
		if readers := report.Flow(k); len(readers) != 1 || readers[0].PID != pid || readers[0].Comm == "" {
			t.Errorf("text %v: readers %v, want process %d; %s", text, readers, pid, report.Why)
		}
		if strings.Contains(report.Why, "own mirror files") {
			t.Errorf("text %v: %s", text, report.Why)
		}
		if n := len(c.scan(t.Context(), r.Watched(), true).Flow(k)); n != 1 {
			t.Errorf("text %v: a periodic check finds %d readers", text, n)
		}
		t.Logf("text %v: known %v %q, %v", c.text, report.Known, report.Why, report.Took)
	}
	stop()
	if report := NewReaderCheck(ReaderCheckConfig{}).Scan(t.Context(), r.Watched()); len(report.Flow(k)) != 0 {
		t.Errorf("it has ended: %v", report.Flow(k))
	}
}

// TestPrivateMapping: a periodic check that looks at shared mappings misses a
// private one; the check before a removal does not, and after it the periodic
// ones do not either.
func TestPrivateMapping(t *testing.T) {
	r, k := watching(t)
	c := NewReaderCheck(ReaderCheckConfig{})
	c.scan(t.Context(), r.Watched(), true)
	if c.text {
		t.Skip("the kernel has no PROCMAP_QUERY; the text is always read whole")
	}
	_, stop := startMapper(t, "private "+flowPath(r, k, "data"))
	defer stop()
	if n := len(c.scan(t.Context(), r.Watched(), true).Flow(k)); n != 0 {
		t.Errorf("a quick check looked at private mappings: %d readers", n)
	}
	if n := len(c.Scan(t.Context(), r.Watched()).Flow(k)); n != 1 {
		t.Errorf("%d readers", n)
	}
	if n := len(c.scan(t.Context(), r.Watched(), true).Flow(k)); n != 1 {
		t.Errorf("afterwards: %d readers", n)
	}
}

// BenchmarkReaderCheck is one check of 200 processes with 2,000 mappings each.
// "media" is a media function: mostly memory, its libraries, a hundred grains.
// "files" is the worst there can be: every mapping is of a mirror's file.
func BenchmarkReaderCheck(b *testing.B) {
	const processes = 200
	for _, mix := range []struct{ name, counts string }{{"media", "1400 500 100"}, {"files", "0 0 2000"}} {
		r, k := watching(b)
		mustEnsure(b, r, origin("audio", 2))
		var stops []func()
		for range processes {
			_, stop := startMapper(b, mix.counts+" "+flowPath(r, k, "grains", "data.0"))
			stops = append(stops, stop)
		}
		for _, way := range []string{"periodic", "before removal", "by text"} {
			b.Run(mix.name+"/"+way, func(b *testing.B) {
				c := NewReaderCheck(ReaderCheckConfig{})
				c.text = way == "by text"
				w := r.Watched()
				before := cpuTime(b)
				for b.Loop() {
					if n := len(c.scan(b.Context(), w, way == "periodic").Flow(k)); n != processes {
						b.Fatalf("%d readers", n)
					}
				}
				b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
		for _, stop := range stops {
			stop()
		}
	}
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package nmos

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// The facility of the scale checks: 100 nodes with 10 receivers each, 20 nodes
// of them on this host.
const (
	scaleNodes     = 100
	scaleLocal     = 20
	scaleReceivers = 10
	scaleServer    = "NMOS_TEST_SCALE_SERVER"
)

func fillScale(f *facility) {
	f.pageSize = 100
	for n := range scaleNodes {
		host := "192.0.2.77"
		if n < scaleLocal {
			host = "127.0.0.1"
		}
		var receivers []int
		for r := range scaleReceivers {
			receivers = append(receivers, n*scaleReceivers+r)
		}
		f.putNode(n, host, receivers...)
	}
}

// serveScale is the child process of BenchmarkObserverSteady: the facility's cost
// is not the observer's.
func serveScale() {
	var tb testing.B
	f := &facility{tb: &tb, active: map[string]string{}, reads: map[string]int{}, known: map[string]bool{}}
	f.noSubs = os.Getenv(scaleServer) == "polling"
	f.srv = httptest.NewServer(http.HandlerFunc(f.serve))
	fillScale(f)
	fmt.Println(f.srv.URL)
	io.Copy(io.Discard, os.Stdin) // until the parent goes
}

// BenchmarkObserverSteady measures the observer's CPU with 1,000 receivers on
// 100 nodes, 20 of them local, NMOS_POLL_INTERVAL_MS=1000.
func BenchmarkObserverSteady(b *testing.B) {
	for _, mode := range []string{"subscriptions", "polling"} {
		b.Run(mode, func(b *testing.B) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), scaleServer+"="+mode)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			defer cmd.Wait()
			defer stdin.Close()
			line, err := bufio.NewReader(stdout).ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			o, err := NewObserver(ObserverConfig{
				Directory: StaticDirectory{Query: []string{strings.TrimSpace(line)}},
				Local:     NewLocalRules(LocalConfig{Hostname: "none.test"}),
			})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			go func() { defer close(done); o.Run(ctx) }()
			defer func() { cancel(); <-done }()
			await(b, o, "1,000 receivers", func(s Snapshot) bool {
				known := 0
				for _, r := range s.Receivers {
					if r.ActiveKnown {
						known++
					}
				}
				return len(s.Receivers) == scaleNodes*scaleReceivers && known == scaleLocal*scaleReceivers && s.Subscribed == (mode == "subscriptions")
			})
			time.Sleep(2 * time.Second) // the start is not the steady state
			cpu, start := cpuTime(b), time.Now()
			time.Sleep(15 * time.Second)
			percent := 100 * (cpuTime(b) - cpu).Seconds() / time.Since(start).Seconds()
			b.ReportMetric(percent, "core-%")
			b.ReportMetric(0, "ns/op")
			if percent > 5 {
				b.Errorf("%.1f %% of a core, want at most 5 %%", percent)
			}
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// At most one read per local receiver and interval, none of remote ones.
func TestObserverReadsOncePerInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &facility{tb: t, active: map[string]string{}, reads: map[string]int{}, known: map[string]bool{}, noSubs: true}
		f.srv = &httptest.Server{URL: "http://facility.test"}
		fillScale(f)
		var mu sync.Mutex
		last := map[string]time.Time{}
		var closest time.Duration = time.Hour
		client := &http.Client{Transport: roundTripper(func(r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/active") {
				mu.Lock()
				if at, ok := last[r.URL.Path]; ok {
					closest = min(closest, time.Since(at))
				}
				last[r.URL.Path] = time.Now()
				mu.Unlock()
				time.Sleep(3 * time.Millisecond)
			}
			w := httptest.NewRecorder()
			f.serve(w, r)
			return w.Result()
		})}
		o, err := NewObserver(ObserverConfig{
			Directory: StaticDirectory{Query: []string{f.srv.URL}}, Client: client,
			Local: NewLocalRules(LocalConfig{Hostname: "none.test"}),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		o.Run(ctx)
		if len(last) != scaleLocal*scaleReceivers {
			t.Errorf("%d receivers read, want %d", len(last), scaleLocal*scaleReceivers)
		}
		for id, n := range f.reads {
			if n < 25 || n > 30 {
				t.Errorf("%s: %d reads in 30 s", id, n)
			}
		}
		if closest < time.Second {
			t.Errorf("two reads of one receiver %v apart", closest)
		}
		if f.passes > 31 {
			t.Errorf("%d passes in 30 s", f.passes)
		}
	})
}

// Ten thousand receivers, all of them here: understood, and bounded.
func TestObserverTenThousandReceivers(t *testing.T) {
	f := newFacility(t)
	f.pageSize = 100
	var all []int
	for r := range 10_000 {
		all = append(all, r)
	}
	f.putNode(1, "127.0.0.1", all...)
	o := observe(t, f, func(c *ObserverConfig) { c.PollInterval = 30 * time.Second; c.NoSubscriptions = true })
	await(t, o, "all of them", func(s Snapshot) bool { return len(s.Receivers) == 10_000 })
	// In one page they are over the limit: an error, and nothing is lost.
	f.set(func() { f.raw = "[" + strings.Repeat(" ", responseLimit) + "]" })
	s := await(t, o, "the limit", func(s Snapshot) bool {
		o.askPass() // a busy machine does not read 8 MiB in time every time
		return strings.Contains(s.RegistryError, "8 MiB")
	})
	if len(s.Receivers) != 10_000 || !s.Stale || s.RegistryUp {
		t.Errorf("%d receivers, stale %t, error %q", len(s.Receivers), s.Stale, s.RegistryError)
	}
}

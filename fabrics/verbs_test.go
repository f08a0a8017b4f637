//go:build verbs

// Tests over verbs. They need RDMA devices at the addresses below, which is what
// tests/verbs/run.sh provides, so they are not part of a plain go test.

package fabrics

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/rdmacm"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// hosts are the addresses of the two hosts, source first.
var hosts = map[string][2]string{
	"ipv4": {"10.77.0.1", "10.77.0.2"},
	"ipv6": {"fd77::1", "fd77::2"},
}

func verbsSource(t testing.TB, f *testFlow, address string) *Source {
	return openSource(t, f, func(c *SourceConfig) { c.Provider, c.Address = Verbs, address })
}

// newVerbsPair is newPair over verbs.
func newVerbsPair(t testing.TB, def, family string) *pair {
	t.Helper()
	p := &pair{testFlow: newFlow(t, def, 400*time.Millisecond, 600*time.Millisecond)}
	p.w = p.grainWriter(t, p.origin)
	p.mirror = p.grainWriter(t, p.testFlow.mirror)
	p.target = openTarget(t, TargetConfig{Discrete: p.mirror, FlowID: p.id, Provider: Verbs, Address: hosts[family][1]})
	p.source = verbsSource(t, p.testFlow, hosts[family][0])
	var err error
	if p.r, err = p.testFlow.mirror.OpenDiscreteReader(p.id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.r.Close() })
	return p
}

func TestVerbsGrains(t *testing.T) {
	for family := range hosts {
		for name, def := range map[string]string{
			"v210":     videoDef("video/v210", smallVideo, smallKeyed, rate50),
			"v210a":    videoDef("video/v210a", smallVideo, smallKeyed, rate50),
			"smpte291": dataDef,
		} {
			t.Run(family+" "+name, func(t *testing.T) {
				p := newVerbsPair(t, def, family)
				writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
				connect(t, p.source, "b", p.target)
				p.arrives(t, 500, mxl.AllSlices)
				// One at a time, then as many as the ring holds at once.
				for index := uint64(501); index < 520; index++ {
					writeGrain(t, p.w, index, 0, p.w.TotalSlices())
					p.arrives(t, index, mxl.AllSlices)
				}
				for index := uint64(520); index < 528; index++ {
					writeGrain(t, p.w, index, 0, p.w.TotalSlices())
				}
				for index := uint64(520); index < 528; index++ {
					p.arrives(t, index, mxl.AllSlices)
				}
				if st := p.target.Stats(); st.Errors != 0 || st.BadImmediates != 0 || !st.Native {
					t.Errorf("%+v", st)
				}
			})
		}
	}
}

// TestVerbsForeignTarget: a target that is not ours gets one immediate at a time, so
// that the receive it has posted is always the one it needs.
func TestVerbsForeignTarget(t *testing.T) {
	p := newVerbsPair(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), "ipv4")
	writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
	info := p.target.Info()
	info.Native = 0
	if err := p.source.SetTarget("b", info); err != nil {
		t.Fatal(err)
	}
	p.arrives(t, 500, mxl.AllSlices)
	for index := uint64(501); index < 509; index++ {
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	}
	for index := uint64(501); index < 509; index++ {
		p.arrives(t, index, mxl.AllSlices)
	}
	if st := targetOf(p.source, "b"); st.Native || st.Errors != 0 {
		t.Errorf("%+v", st)
	}
	// Who may connect without the secret is decided by this address.
	if from := p.target.Stats().Peer; from != hosts["ipv4"][0] {
		t.Errorf("the request comes from %s", from)
	}
}

func TestVerbsSamples(t *testing.T) {
	for _, channels := range []int{1, 2, 16, 64} {
		for _, pipeline := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d channels, pipeline %v", channels, pipeline), func(t *testing.T) {
				f := newFlow(t, audioDef(channels), 200*time.Millisecond, 340*time.Millisecond)
				w := f.sampleWriter(t, f.origin)
				target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id, Provider: Verbs, Address: hosts["ipv4"][1]})
				s := openSource(t, f, func(c *SourceConfig) {
					c.Provider, c.Address, c.AudioPipeline = Verbs, hosts["ipv4"][0], pipeline
				})
				r, err := f.mirror.OpenContinuousReader(f.id)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { r.Close() })
				head := uint64(48000 * 1000)
				writeSamples(t, w, head, 480)
				connect(t, s, "b", target)
				time.Sleep(50 * time.Millisecond) // the first batch starts at the head of that moment
				what := func() string { return fmt.Sprintf("source %+v target %+v", targetOf(s, "b"), target.Stats()) }
				for start := head; head < start+3*w.BufferLength(); {
					count := 1 + (head*7919)%w.MaxCount()/2
					head += count
					writeSamples(t, w, head, count)
					readSamples(t, r, head, count, what)
				}
				if st := target.Stats(); st.Errors != 0 || st.BadImmediates != 0 {
					t.Errorf("%s", what())
				}
			})
		}
	}
}

// TestVerbsQueuePairs: what was set is what the queue pairs of both ends report.
func TestVerbsQueuePairs(t *testing.T) {
	if !rdmacm.Hooked() {
		t.Fatal("librdmacm's own functions win")
	}
	t.Cleanup(func() { rdmacm.Configure(rdmacm.Settings{}) })
	for family, addresses := range hosts {
		for _, want := range []rdmacm.Settings{{ACKTimeout: 14, RetryCount: 7}, {ACKTimeout: 17, RetryCount: 3}, {RetryCount: 5}} {
			t.Run(fmt.Sprintf("%s %+v", family, want), func(t *testing.T) {
				rdmacm.Configure(want)
				rdmacm.Established()
				p := newVerbsPair(t, dataDef, family)
				writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
				connect(t, p.source, "b", p.target)
				p.arrives(t, 500, mxl.AllSlices)
				seen := map[rdmacm.Role]rdmacm.QueuePair{}
				for _, q := range rdmacm.Established() {
					t.Logf("%+v", q)
					seen[q.Role] = q
				}
				listen, err := p.target.Info().AddrPort()
				if err != nil {
					t.Fatal(err)
				}
				for role, q := range seen {
					local, remote, device := q.Local, q.Remote, "rxe2"
					if role == rdmacm.Source {
						local, remote, device = remote, local, "rxe1"
					}
					if local != listen || remote.Addr().String() != addresses[0] || q.Device != device || q.Number == 0 {
						t.Errorf("%v: %+v", role, q)
					}
					if !q.Applied() || q.RetryCount != want.RetryCount || want.ACKTimeout != 0 && q.ACKTimeout != want.ACKTimeout {
						t.Errorf("%v: %+v", role, q)
					}
				}
				if len(seen) != 2 {
					t.Errorf("queue pairs of %d roles", len(seen))
				}
			})
		}
	}
}

// loss makes the source's host lose some of what it sends, as netem's loss option
// says it; nothing with an empty model.
func loss(t testing.TB, model string) {
	t.Helper()
	arguments := append([]string{"qdisc", "replace", "dev", "h1", "root", "netem", "limit", "10000", "loss"}, strings.Fields(model)...)
	if model == "" {
		arguments = []string{"qdisc", "del", "dev", "h1", "root"}
	}
	if out, err := exec.Command("tc", arguments...).CombinedOutput(); err != nil {
		t.Fatalf("tc %v: %v\n%s", arguments, err, out)
	}
}

// TestVerbsRetriesExhausted: a queue pair whose acknowledgements stop for good fails
// after its retries, and the connection is made again when the link is back. The
// other destination does not notice.
func TestVerbsRetriesExhausted(t *testing.T) {
	rdmacm.Configure(rdmacm.Settings{ACKTimeout: 14, RetryCount: 3})
	t.Cleanup(func() { rdmacm.Configure(rdmacm.Settings{}) })
	p := newVerbsPair(t, dataDef, "ipv4")
	// The second destination is on the source's own host, which never meets netem.
	second, _ := domains(t, 600*time.Millisecond, 600*time.Millisecond)
	other := openTarget(t, TargetConfig{Discrete: p.grainWriter(t, second), FlowID: p.id, Provider: Verbs, Address: hosts["ipv4"][0]})
	writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	connect(t, p.source, "c", other)
	before := targetOf(p.source, "c")
	p.arrives(t, 500, mxl.AllSlices)
	index := uint64(500)
	step := func() {
		index++
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		time.Sleep(20 * time.Millisecond)
	}
	for range 10 {
		step()
	}
	loss(t, "100%")
	cut := time.Now()
	for targetOf(p.source, "b").Errors == 0 {
		step()
		if time.Since(cut) > 10*time.Second {
			t.Fatalf("not noticed: %s", p.describe())
		}
	}
	t.Logf("noticed after %v: %s", time.Since(cut), targetOf(p.source, "b").LastError)
	for range 50 {
		step()
	}
	if st := targetOf(p.source, "c"); st.Errors != before.Errors || st.Connections != before.Connections || st.Head+3 < index {
		t.Errorf("the other destination: %+v, origin at %d", st, index)
	}
	loss(t, "")
	back := time.Now()
	for p.target.Stats().Head+2 < index || !targetOf(p.source, "b").Connected {
		step()
		if time.Since(back) > 15*time.Second {
			t.Fatalf("not connected again: %s", p.describe())
		}
	}
	t.Logf("flowing again after %v", time.Since(back))
	index++
	writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	p.arrives(t, index, mxl.AllSlices)
}

// TestVerbsBrokenHandshakes: a destination that hangs or dies at any moment of the
// handshake costs the source nothing but that connection: another destination goes
// on, and the next target under the same key gets the flow.
func TestVerbsBrokenHandshakes(t *testing.T) {
	rounds := 200
	if s := os.Getenv("VERBS_HANDSHAKES"); s != "" {
		if _, err := fmt.Sscan(s, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	p := newVerbsPair(t, dataDef, "ipv4")
	second, broken := domains(t, 600*time.Millisecond, 600*time.Millisecond)
	p.grainWriter(t, broken) // makes the files that the processes open
	other := openTarget(t, TargetConfig{Discrete: p.grainWriter(t, second), FlowID: p.id, Provider: Verbs, Address: hosts["ipv4"][0]})
	index := uint64(500)
	writeGrain(t, p.w, index, 0, p.w.TotalSlices())
	connect(t, p.source, "c", other)
	before := targetOf(p.source, "c")
	step := func() {
		index++
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		time.Sleep(5 * time.Millisecond)
	}
	var took []time.Duration
	recovered, unfinished := 0, 0
	var process *exec.Cmd
	var info TargetInfo
	for round := range rounds {
		begun := time.Now()
		if process == nil { // the last one was killed
			process, info = startTarget(t, broken.Path(), p.id, hosts["ipv4"][1])
		}
		started := time.Now()
		if err := p.source.SetTarget("b", info); err != nil {
			t.Fatal(err)
		}
		sign := unix.SIGKILL
		if random.IntN(2) == 0 {
			sign = unix.SIGSTOP
		}
		// A handshake takes some 5 ms here.
		time.Sleep(time.Duration(random.Int64N(int64(15 * time.Millisecond))))
		if !targetOf(p.source, "b").Connected {
			unfinished++
		}
		if err := process.Process.Signal(sign); err != nil {
			t.Fatal(err)
		}
		for range random.IntN(20) {
			step()
		}
		start, from := time.Now(), index
		if err := p.source.SetTarget("b", p.target.Info()); err != nil {
			t.Fatal(err)
		}
		for limit := start.Add(20 * time.Second); ; step() {
			head := p.target.Stats().Head
			if targetOf(p.source, "b").Connected && head != mxl.UndefinedIndex && head > from {
				recovered++
				break
			}
			if time.Now().After(limit) {
				t.Errorf("round %d, %v: not flowing: %s", round, sign, p.describe())
				break
			}
		}
		took = append(took, time.Since(start))
		t.Logf("round %d: start %v broken %v recovery %v %v", round, started.Sub(begun), start.Sub(started), time.Since(start), sign)
		if sign == unix.SIGSTOP && random.IntN(8) > 0 {
			// It goes on with what is left of its handshake, and is used again.
			if err := process.Process.Signal(unix.SIGCONT); err != nil {
				t.Fatal(err)
			}
		} else {
			_ = process.Process.Kill()
			_ = process.Wait()
			process = nil
		}
		if st := targetOf(p.source, "c"); st.Errors != before.Errors || st.Connections != before.Connections {
			t.Errorf("round %d: the other destination: %d errors, %d connections, %s", round, st.Errors, st.Connections, st.LastError)
		}
	}
	if process != nil {
		_ = process.Process.Kill()
		_ = process.Wait()
	}
	slices.Sort(took)
	fmt.Printf("RESULT handshakes_broken %d\nRESULT handshakes_recovered %d\n", rounds, recovered)
	t.Logf("recovery: median %v, worst %v; %d of the handshakes were not finished when they were broken", took[len(took)/2], took[len(took)-1], unfinished)
}

// startTarget starts a process with a target in it.
func startTarget(t testing.TB, domain string, flow uuid.UUID, address string) (*exec.Cmd, TargetInfo) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s verbs %s", targetProcess, domain, flow, address))
	c.Stderr = os.Stderr
	if _, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	info, err := ParseTargetInfo(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return c, info
}

// TestVerbsStalls: a lost packet holds an audio flow up for one ACK timeout, so the
// setting decides how long (contract, "Audio timing"). Six stalls are waited for. The
// losses are isolated: what is sent again arrives. rxe's timer may have been running
// for an earlier packet, so that a stall may also be shorter than the timeout.
func TestVerbsStalls(t *testing.T) {
	t.Cleanup(func() { rdmacm.Configure(rdmacm.Settings{}) })
	longest := map[int]time.Duration{}
	for _, timeout := range []int{14, 17} {
		rdmacm.Configure(rdmacm.Settings{ACKTimeout: timeout, RetryCount: 7})
		f := newFlow(t, audioDef(1), 2*time.Second, 2*time.Second)
		w := f.sampleWriter(t, f.origin)
		target := openTarget(t, TargetConfig{Continuous: f.sampleWriter(t, f.mirror), FlowID: f.id, Provider: Verbs, Address: hosts["ipv4"][1]})
		s := verbsSource(t, f, hosts["ipv4"][0])
		head := uint64(48000 * 1000)
		writeSamples(t, w, head, 48)
		connect(t, s, "b", target)
		loss(t, "state 0% 100% 0% 100% 0.5%") // p13 p31 p32 p23 p14: single packets only
		start := time.Now()
		var st TargetStatus
		var timing Timing
		for timing.TransferStalls < 6 && time.Since(start) < 90*time.Second {
			head += 96
			writeSamples(t, w, head, 96)
			time.Sleep(2 * time.Millisecond)
			st, timing = targetOf(s, "b"), s.Stats().Timing
			longest[timeout] = max(longest[timeout], timing.Transfer.Max)
		}
		took := time.Since(start)
		loss(t, "")
		t.Logf("timeout %d: longest of %d stalls %v, %d transfers in %v", timeout, timing.TransferStalls, longest[timeout], st.Transfers, took)
		if timing.TransferStalls < 6 || st.Errors != 0 {
			t.Errorf("timeout %d: %+v", timeout, st)
		}
		nominal := rdmacm.AckTime(timeout)
		if got := longest[timeout]; got < nominal*7/10 || got > nominal*12/10 {
			t.Errorf("timeout %d: longest stall %v, want about %v", timeout, got, nominal)
		}
		fmt.Printf("RESULT stall_ms_at_%d %.1f\n", timeout, float64(longest[timeout].Microseconds())/1000)
		s.RemoveTarget("b")
	}
}

// TestVerbsSilentHost: a host that does not answer at all, not even who it is, keeps
// only its own connection waiting, and closing the source does not wait for it.
func TestVerbsSilentHost(t *testing.T) {
	// Runs after the source is closed: what it left goes with libfabric's own limit.
	t.Cleanup(func() {
		eventually(t, 10*time.Second, func() string { return fmt.Sprint(goleak.Find()) }, func() bool { return goleak.Find() == nil })
	})
	p := newVerbsPair(t, dataDef, "ipv4")
	writeGrain(t, p.w, 500, 0, p.w.TotalSlices())
	connect(t, p.source, "b", p.target)
	before := targetOf(p.source, "b")
	info := p.target.Info()
	info.Address = append([]byte(nil), info.Address...)
	info.Address[7] = 99 // 10.77.0.99 is nobody
	if err := p.source.SetTarget("c", info); err != nil {
		t.Fatal(err)
	}
	index, worst := uint64(500), time.Duration(0)
	for start := time.Now(); time.Since(start) < 6*time.Second || targetOf(p.source, "c").Errors == 0; {
		if time.Since(start) > 30*time.Second {
			t.Fatalf("the silent host has no error: %+v", targetOf(p.source, "c"))
		}
		index++
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		written := time.Now()
		p.arrives(t, index, mxl.AllSlices)
		worst = max(worst, time.Since(written))
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("slowest grain %v; the silent host: %s", worst, targetOf(p.source, "c").LastError)
	if st := targetOf(p.source, "b"); worst > time.Second || st.Errors != before.Errors {
		t.Errorf("a grain took %v, %+v", worst, st)
	}
	if st := targetOf(p.source, "c"); st.Connections != 0 || st.State != StateError {
		t.Errorf("%+v", st)
	}
}

package fabrics

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// stoppable starts a process with a target of the flow in the domain.
func stoppable(t *testing.T, d *mxl.Domain, f *testFlow) (*exec.Cmd, TargetInfo) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^$")
	cmd.Env = append(os.Environ(), targetProcess+"="+d.Path()+" "+f.id.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(unix.SIGCONT)
		in.Close()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	info, err := ParseTargetInfo(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	return cmd, info
}

func median(d []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(d))
	return sorted[len(sorted)/2]
}

// Test26StoppedTarget: of three targets one is stopped; the others lag by less than
// two grains, the stopped one is reported and comes back when it goes on (MXL Fabrics
// reference §13.26, §13.20).
func Test26StoppedTarget(t *testing.T) {
	f := newFlow(t, videoDef("video/v210", 960, 540, rate50), 200*time.Millisecond, 200*time.Millisecond)
	w := f.grainWriter(t, f.origin)
	var readers []*mxl.DiscreteReader
	s := openSource(t, f)
	var stopped *exec.Cmd
	for i := range 3 {
		_, mirror := domains(t, 200*time.Millisecond, 200*time.Millisecond)
		mw := f.grainWriter(t, mirror)
		r, err := mirror.OpenDiscreteReader(f.id)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		readers = append(readers, r)
		key := fmt.Sprint("t", i)
		if i == 0 {
			var info TargetInfo
			stopped, info = stoppable(t, mirror, f)
			if err := s.SetTarget(key, info); err != nil {
				t.Fatal(err)
			}
			continue
		}
		target := openTarget(t, TargetConfig{Discrete: mw, FlowID: f.id})
		if err := s.SetTarget(key, target.Info()); err != nil {
			t.Fatal(err)
		}
	}
	all := func() string { return fmt.Sprintf("%+v", s.Stats()) }
	eventually(t, 3*time.Second, all, func() bool {
		for _, st := range s.Stats().Targets {
			if !st.Connected {
				return false
			}
		}
		return true
	})
	index := uint64(5000)
	var lags []time.Duration
	overslept := time.Duration(0) // the most this thread waited for a processor
	next := func() {
		t.Helper()
		writeGrain(t, w, index, 0, w.TotalSlices())
		start := time.Now()
		for i, r := range readers[1:] {
			if _, err := r.WaitGrain(index, mxl.AllSlices, patience); err != nil {
				t.Fatalf("grain %d at target %d: %v, %s", index, i+1, err, all())
			}
		}
		lags = append(lags, time.Since(start))
		index++
		start = time.Now()
		time.Sleep(10 * time.Millisecond) // the writer's pace
		overslept = max(overslept, time.Since(start)-10*time.Millisecond)
	}
	for range 40 {
		next()
	}
	usual := median(lags)
	lags = lags[:0]
	eventually(t, time.Second, all, func() bool { return readers[0].Head() == index-1 })
	if err := stopped.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, 3*time.Second, all, func() bool {
		next()
		return time.Since(began) > 3*time.Second && targetOf(s, "t0").State == StateError
	})
	// Two grain periods, or what the machine needed before one was stopped. A stopped
	// target that held the others up would do so for the 2 s until it is given up.
	t.Logf("lag %v before, %v and at most %v while one was stopped; overslept at most %v", usual, median(lags), slices.Max(lags), overslept)
	if m := median(lags); m > 2*20*time.Millisecond && m > 3*usual {
		t.Errorf("the others lag by %v, before %v", m, usual)
	}
	if m := slices.Max(lags); m > time.Second+10*overslept {
		t.Errorf("the others were held up for %v", m)
	}
	for _, key := range []string{"t1", "t2"} {
		if st := targetOf(s, key); st.State != StateActive || st.Errors != 0 || st.Skipped != 0 || st.Connections != 1 {
			t.Errorf("%s: %v %q, %d errors, %d skipped", key, st.State, st.LastError, st.Errors, st.Skipped)
		}
	}
	if err := stopped.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	eventually(t, 10*time.Second, all, func() bool {
		next()
		return readers[0].Head()+2 >= index
	})
}

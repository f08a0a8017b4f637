package rdmacm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// hostProcess makes the test binary a process that hosts testdata/fakecm.c: for
// each line "ack retry command…" on its input it configures, has the command
// obeyed and prints what was established.
const hostProcess = "RDMACM_TEST_HOST"

func TestMain(m *testing.M) {
	if os.Getenv(hostProcess) != "" {
		if err := host(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// step is the outcome of one command.
type step struct {
	Fake    string
	Pairs   []pairText
	Dropped uint64
}

type pairText struct {
	Role, Local, Remote, Device, Option, Query string
	Number                                     uint32
	ACKTimeout, RetryCount, RNRRetry           int
	Wanted                                     Settings
}

func textOf(q QueuePair) pairText {
	p := pairText{
		Role: q.Role.String(), Local: q.Local.String(), Remote: q.Remote.String(), Device: q.Device, Number: q.Number,
		ACKTimeout: q.ACKTimeout, RetryCount: q.RetryCount, RNRRetry: q.RNRRetry, Wanted: q.Wanted,
	}
	if q.OptionError != nil {
		p.Option = q.OptionError.Error()
	}
	if q.QueryError != nil {
		p.Query = q.QueryError.Error()
	}
	return p
}

func host() error {
	commands, answers := os.NewFile(5, "commands"), bufio.NewReader(os.NewFile(6, "answers"))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var s Settings
		var command string
		if _, err := fmt.Sscan(lines.Text(), &s.ACKTimeout, &s.RetryCount); err != nil {
			return err
		}
		command = strings.Join(strings.Fields(lines.Text())[2:], " ")
		Configure(s)
		if _, err := fmt.Fprintln(commands, command); err != nil {
			return err
		}
		fake, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		out := step{Fake: strings.TrimSpace(fake)}
		for _, q := range Established() {
			out.Pairs = append(out.Pairs, textOf(q))
		}
		out.Dropped = Dropped()
		if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
			return err
		}
	}
	return lines.Err()
}

// fakeHost builds the stand-in and starts a process with it.
func fakeHost(t *testing.T) func(line string) step {
	t.Helper()
	library := filepath.Join(t.TempDir(), "fakecm.so")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-Wall", "-Werror", "-o", library, "testdata/fakecm.c", "-pthread").CombinedOutput(); err != nil {
		t.Fatalf("build the stand-in: %v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	toFake, commands := pipe(t)
	answers, fromFake := pipe(t)
	process := exec.Command(self)
	process.Env = append(os.Environ(), hostProcess+"=1", "LD_PRELOAD="+library)
	process.Stderr = os.Stderr
	process.ExtraFiles = []*os.File{toFake, fromFake, commands, answers} // 3, 4, 5, 6
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
	})
	decoder := json.NewDecoder(out)
	return func(line string) step {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
		var s step
		if err := decoder.Decode(&s); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		return s
	}
}

func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// TestHooked is about this very binary: linked as any other of the module.
func TestHooked(t *testing.T) {
	if !Hooked() {
		t.Error("librdmacm's own functions win")
	}
}

func TestCallsOfAnotherLibraryAreCaught(t *testing.T) {
	do := fakeHost(t)
	for _, c := range []struct {
		line, fake string
		pair       pairText
	}{
		{
			"14 7 connect 192.0.2.1 192.0.2.2 9 0 0 -1 1", "option 14 retry 7 param 15 destroyed 1",
			pairText{Role: "source", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", ACKTimeout: 14, RetryCount: 7, Wanted: Settings{14, 7}},
		},
		{
			"17 3 connect fd00::1 fd00::2 9 0 0 -1 1", "option 17 retry 3 param 15 destroyed 1",
			pairText{Role: "source", Local: "[fd00::1]:4001", Remote: "[fd00::2]:4002", ACKTimeout: 17, RetryCount: 3, Wanted: Settings{17, 3}},
		},
		{ // the retry count of an accepting side is not ours
			"14 3 accept 192.0.2.1 192.0.2.2 9 0 0 -1 1", "option 14 retry 15 param 15 destroyed 1",
			pairText{Role: "destination", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", ACKTimeout: 14, RetryCount: 7, Wanted: Settings{14, 0}},
		},
		{ // left to rdma_cm
			"0 7 connect 192.0.2.1 192.0.2.2 9 0 0 19 1", "option 0 retry 7 param 15 destroyed 1",
			pairText{Role: "source", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", ACKTimeout: 19, RetryCount: 7, Wanted: Settings{0, 7}},
		},
		{ // a driver that reports none
			"14 7 connect 192.0.2.1 192.0.2.2 9 0 0 0 1", "option 14 retry 7 param 15 destroyed 1",
			pairText{Role: "source", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", RetryCount: 7, Wanted: Settings{14, 7}},
		},
		{ // a kernel without the option
			"14 7 connect 192.0.2.1 192.0.2.2 9 38 0 17 1", "option 0 retry 7 param 15 destroyed 1",
			pairText{Role: "source", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", ACKTimeout: 17, RetryCount: 7, Wanted: Settings{14, 7}, Option: "function not implemented"},
		},
		{
			"14 7 connect 192.0.2.1 192.0.2.2 9 0 22 -1 1", "option 14 retry 7 param 15 destroyed 1",
			pairText{Role: "source", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", Wanted: Settings{14, 7}, Query: "invalid argument"},
		},
		{ // connected without parameters
			"14 7 bare 192.0.2.1 192.0.2.2 9 0 0 -1 1", "option 14 retry -1 param 15 destroyed 1",
			pairText{Role: "source", Local: "192.0.2.1:4001", Remote: "192.0.2.2:4002", ACKTimeout: 14, RetryCount: 255, Wanted: Settings{14, 7}},
		},
	} {
		got := do(c.line)
		c.pair.Device, c.pair.Number = "fake0", 9
		if c.pair.Query == "" {
			c.pair.RNRRetry = 7
		}
		if got.Fake != c.fake || len(got.Pairs) != 1 || got.Pairs[0] != c.pair {
			t.Errorf("%s:\ngot  %+v\nwant %s %+v", c.line, got, c.fake, c.pair)
		}
	}
}

func TestDestroyedIdsAreForgotten(t *testing.T) {
	do := fakeHost(t)
	if got := do("14 7 dead 192.0.2.1 192.0.2.2 1 0 0 -1 10"); len(got.Pairs) != 0 || got.Dropped != 0 {
		t.Errorf("%+v", got)
	}
	// More than the table holds, one after the other.
	for range 50 {
		if got := do("14 7 connect 192.0.2.1 192.0.2.2 1 0 0 -1 200"); len(got.Pairs) != 200 || got.Dropped != 0 {
			t.Fatalf("%d pairs, %d dropped", len(got.Pairs), got.Dropped)
		}
	}
}

func TestNothingGrows(t *testing.T) {
	do := fakeHost(t)
	got := do("14 7 connect 192.0.2.1 192.0.2.2 1 0 0 -1 300")
	if len(got.Pairs) != 256 || got.Dropped != 44 {
		t.Fatalf("queue: %d pairs, %d dropped", len(got.Pairs), got.Dropped)
	}
	for i, p := range got.Pairs {
		if p.Number != uint32(1+i) {
			t.Fatalf("pair %d has number %d", i, p.Number)
		}
	}
	// Ids that are never destroyed: connecting works on, reporting ends.
	reported := 0
	for range 80 {
		reported += len(do("14 7 keep 192.0.2.1 192.0.2.2 1 0 0 -1 200").Pairs)
	}
	if reported < 7000 || reported > 8192 {
		t.Errorf("%d of 16000 were reported", reported)
	}
	if got := do("17 7 keep 192.0.2.1 192.0.2.2 1 0 0 -1 1"); got.Fake != "option 17 retry 7 param 15 destroyed 0" {
		t.Errorf("with a full table: %+v", got)
	}
}

func TestEmptyQueue(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				if q := Established(); q != nil {
					t.Errorf("%+v", q)
				}
			}
		})
	}
	wg.Wait()
}

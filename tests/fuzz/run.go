package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// limits of one run.
type limits struct {
	each      time.Duration
	memoryMiB int
	cache     string // of inputs that were found before
}

const (
	// slack is what a run may take beyond its time: it replays what the cache holds
	// first.
	slack = 60 * time.Second
	// shrinking is how many steps an interesting input is made smaller. Go's own 60 s
	// are spent on the first few: a 4 KiB header was then tried 100 times a second
	// instead of 14,000 times.
	shrinking = "100x"
)

// The ends of a run. Every one but endGood fails the whole.
const (
	endGood    = "ok"
	endFound   = "CRASH" // also of a worker without memory: its last words are not passed on
	endHung    = "HANG"
	endStopped = "stopped"
)

// result is what one run did.
type result struct {
	target
	end     string
	execs   int // inputs tried
	found   int // inputs that reached something new
	seconds float64
	peakMiB int // largest resident set of its processes
	output  string
}

// run fuzzes one target on one worker. The binary is started in its package's
// directory, because seeds are files of the tree, and where go test would start it.
func run(ctx context.Context, t target, l limits) result {
	ctx, cancel := context.WithTimeout(ctx, l.each+slack)
	defer cancel()
	// RLIMIT_DATA counts private writable memory: an allocation beyond it fails, and
	// the process with it, before the machine suffers. GOMEMLIMIT only makes the
	// collector work harder below it.
	cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -d "$1" && shift && exec "$@"`, "sh", strconv.Itoa(l.memoryMiB<<10),
		t.binary, "-test.run", "^$", "-test.fuzz", "^"+t.name+"$", "-test.fuzztime", l.each.String(),
		"-test.fuzzminimizetime", shrinking, "-test.parallel", "1",
		"-test.fuzzcachedir", filepath.Join(l.cache, t.pkg))
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMEMLIMIT=%dMiB", l.memoryMiB*3/4))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The coordinator has a process for its worker: both end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	began := time.Now()
	err := cmd.Run()
	r := result{target: t, seconds: time.Since(began).Seconds(), output: out.String()}
	r.execs, r.found = counts(r.output)
	if cmd.ProcessState != nil {
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			r.peakMiB = int(usage.Maxrss >> 10) // kilobytes, of the children as well
		}
	}
	r.end = r.judge(err, ctx.Err())
	return r
}

// judge says how a run ended, from how its process did and what it printed.
func (r *result) judge(err, stopped error) string {
	switch {
	case errors.Is(stopped, context.DeadlineExceeded):
		return endHung
	case stopped != nil:
		return endStopped
	case err != nil && !outOfTime(r.output):
		return endFound
	case stuck(r.output):
		return endHung // go takes this for a success: it ends a worker that does not answer
	}
	return endGood
}

// outOfTime reports whether nothing was found but that the coordinator's time was over
// before its worker had answered, as on a busy machine.
func outOfTime(output string) bool {
	return !strings.Contains(output, "Failing input written") && strings.HasSuffix(strings.TrimSpace(output), "context deadline exceeded\nFAIL")
}

// progress is the line that the coordinator prints every three seconds, e.g.
// "fuzz: elapsed: 1m3s, execs: 131 (43/sec), new interesting: 1 (total: 3)".
var progress = regexp.MustCompile(`elapsed: (\S+), execs: (\d+) \(\d+/sec\), new interesting: (\d+)`)

func counts(output string) (execs, found int) {
	if all := progress.FindAllStringSubmatch(output, -1); len(all) > 0 {
		last := all[len(all)-1]
		execs, _ = strconv.Atoi(last[2])
		found, _ = strconv.Atoi(last[3])
	}
	return execs, found
}

// stuckFor is how long no input at all is finished when one does not come to an end.
// The last line is up to 2 s late on a busy machine.
const stuckFor = 4 * time.Second

// stuck reports whether the last input did not end while the run lasted.
func stuck(output string) bool {
	all := progress.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return false
	}
	last := all[len(all)-1]
	end, _ := time.ParseDuration(last[1])
	for _, line := range all {
		if at, err := time.ParseDuration(line[1]); err == nil && line[2] == last[2] {
			return end-at >= stuckFor
		}
	}
	return false
}

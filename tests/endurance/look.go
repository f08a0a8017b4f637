package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// look is one look at an agent. Memory is in KiB.
type look struct {
	at time.Duration // since the first look at any agent

	rss         float64 // resident: the sum of the next three
	anon        float64 // private to the process, what is swapped out with it: all that an allocator gives out
	file        float64 // pages of programs and libraries, resident since they were first touched
	shmem       float64 // pages of rings, likewise
	descriptors float64
	threads     float64
	lines       float64 // of log, since its start, but those of stalls
	stalls      float64 // lines that say that the machine gave a thread no time
	stacks      float64 // of goroutines, those of ended ones that are kept for new ones too, as last told

	goes *goes // nil when this look did not ask the agent
}

// goes is what an agent's metrics page tells of the Go runtime.
type goes struct {
	live       float64 // what the last collection found in use
	ceiling    float64 // what stacks cannot come to unless there are more goroutines
	beyond     float64 // anonymous memory that is neither heap nor stacks: C's, threads', the runtime's own
	goroutines float64
}

// lookAt reads what the kernel says of a process.
func lookAt(pid int, log []byte) (l look, err error) {
	status, err := kernelFigures(fmt.Sprintf("/proc/%d/status", pid), "VmRSS", "RssFile", "RssShmem", "Threads")
	if err != nil {
		return l, err
	}
	// The status counts per processor and adds up now and then; this walks the pages.
	memory, err := kernelFigures(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Anonymous", "Swap")
	if err != nil {
		return l, err
	}
	l.rss, l.file, l.shmem, l.threads = status["VmRSS"], status["RssFile"], status["RssShmem"], status["Threads"]
	l.anon = memory["Anonymous"] + memory["Swap"]
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return l, err
	}
	l.descriptors = float64(len(open))
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte(`"event":"fabric_thread_stall"`)) || bytes.Contains(line, []byte(`"event":"reconcile_work_slow"`)) {
			l.stalls++
		} else {
			l.lines++
		}
	}
	return l, nil
}

// kernelFigures are the named figures of a file of lines "name: figure unit".
func kernelFigures(path string, names ...string) (map[string]float64, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		name, rest, _ := strings.Cut(line, ":")
		if fields := strings.Fields(rest); len(fields) > 0 {
			if v, err := strconv.ParseFloat(fields[0], 64); err == nil {
				all[name] = v
			}
		}
	}
	for _, name := range names {
		if _, told := all[name]; !told {
			return nil, fmt.Errorf("%s does not tell %s", path, name)
		}
	}
	return all, nil
}

// The Go runtime (1.26: gfput, startingStackSize, malg) keeps up to keptGoroutines ended goroutines
// a processor, with a stack as large as it gives a new one, and a stack for signals a
// thread.
const (
	keptGoroutines = 64
	largestStart   = 8  // KiB
	signalStack    = 32 // KiB
	largestUsual   = 64 // KiB, of a goroutine that is alive; most have 8
)

// ask takes what an agent's metrics page, fetched with the look, tells.
func (l *look) ask(page []byte) error {
	told := map[string]float64{}
	for line := range strings.Lines(string(page)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && strings.HasPrefix(name, "go_") {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				told[name] = v
			}
		}
	}
	const heap, stacks = "go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"
	const idle, released = "go_memstats_heap_idle_bytes", "go_memstats_heap_released_bytes"
	const live, goroutines, processors = "go_gc_heap_live_bytes", "go_goroutines", "go_sched_gomaxprocs_threads"
	for _, name := range []string{heap, idle, released, stacks, live, goroutines, processors} {
		if _, there := told[name]; !there {
			return fmt.Errorf("the metrics page has no %s", name)
		}
	}
	l.stacks = told[stacks] / 1024
	l.goes = &goes{live: told[live] / 1024, goroutines: told[goroutines],
		beyond:  l.anon - (told[heap]+told[idle]-told[released])/1024 - l.stacks,
		ceiling: told[processors]*keptGoroutines*largestStart + told[goroutines]*largestUsual + l.threads*signalStack}
	return nil
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (a *runningAgent) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: HTTP %d", path, resp.StatusCode)
	}
	return body, err
}

// mirrored waits until that many flows are on disk.
func (a *runningAgent) mirrored(ctx context.Context, want int, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		var rows []struct {
			Flows []struct {
				Active bool `json:"active"`
			} `json:"flows"`
		}
		body, err := a.get(ctx, "/api/v1/mirrors")
		if err == nil {
			err = json.Unmarshal(body, &rows)
		}
		have := 0
		for _, r := range rows {
			for _, f := range r.Flows {
				if f.Active {
					have++
				}
			}
		}
		if have == want {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.Join(fmt.Errorf("%d of %d flows are mirrored after %v", have, want, limit), err)
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// latency asks for a document again and again, and gives the 95th percentile and
// the median in milliseconds, and the agent's processor time for each request, with
// what it does beside them.
func (a *runningAgent) latency(ctx context.Context, path string) (p95, median, cpu float64, err error) {
	const requests = 100
	var took []float64
	before, err := a.cpuTime()
	if err != nil {
		return 0, 0, 0, err
	}
	for range requests {
		began := time.Now()
		body, err := a.get(ctx, path)
		if err != nil {
			return 0, 0, 0, err
		}
		took = append(took, milliseconds(time.Since(began)))
		if len(body) < 10_000 {
			return 0, 0, 0, fmt.Errorf("%s has only %d bytes", path, len(body))
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return 0, 0, 0, err
		}
	}
	after, err := a.cpuTime()
	slices.Sort(took)
	return took[requests*95/100], took[requests/2], milliseconds(after-before) / requests, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// steadyState watches CPU time and passes.
func (a *runningAgent) steadyState(ctx context.Context, span time.Duration, r *result) error {
	passes, err := a.work(ctx, "tick", "tick_cpu")
	if err != nil {
		return err
	}
	cpu, err := a.cpuTime()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, span); err != nil {
		return err
	}
	cpuAfter, err := a.cpuTime()
	if err != nil {
		return err
	}
	wall := time.Since(began)
	after, err := a.work(ctx, "tick", "tick_cpu")
	if err != nil {
		return err
	}
	r.SteadySeconds = wall.Seconds()
	r.CPUCorePercent = 100 * (cpuAfter - cpu).Seconds() / wall.Seconds()
	r.PassP99MS, r.PassMeanMS = after[0].since(passes[0])
	r.PassCPUP99MS, r.PassCPUMeanMS = after[1].since(passes[1])
	return nil
}

// histogram is a Prometheus histogram: cumulative counts by upper bound.
type histogram struct {
	bounds []float64
	counts []float64
	sum    float64
}

// work reads the times of periodic works from the metrics page.
func (a *runningAgent) work(ctx context.Context, works ...string) ([]histogram, error) {
	body, err := a.get(ctx, "/metrics")
	if err != nil {
		return nil, err
	}
	const series = `mxl_fabrics_agent_reconcile_work_seconds`
	list := make([]histogram, len(works))
	for line := range strings.Lines(string(body)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), "} ")
		i := slices.IndexFunc(works, func(w string) bool { return strings.Contains(name, `work="`+w+`"`) })
		if i < 0 || !strings.HasPrefix(name, series) {
			continue
		}
		h := &list[i]
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return nil, err
		}
		switch {
		case strings.HasPrefix(name, series+"_sum"):
			h.sum = value
		case strings.HasPrefix(name, series+"_bucket"):
			_, bound, _ := strings.Cut(name, `le="`)
			b, err := strconv.ParseFloat(strings.Replace(strings.Trim(bound, `"`), "+Inf", "Inf", 1), 64)
			if err != nil {
				return nil, err
			}
			h.bounds, h.counts = append(h.bounds, b), append(h.counts, value)
		}
	}
	for i, h := range list {
		if len(h.bounds) == 0 {
			return nil, fmt.Errorf("no times of %s on the metrics page", works[i])
		}
	}
	return list, nil
}

// since is the 99th percentile, interpolated inside its bucket, and the mean of
// what was observed after before, in milliseconds.
func (h histogram) since(before histogram) (p99, mean float64) {
	last := len(h.counts) - 1
	total := h.counts[last] - before.counts[last]
	if total == 0 {
		return 0, 0
	}
	rank := 0.99 * total
	lower, below := 0.0, 0.0
	for i := range h.counts {
		n := h.counts[i] - before.counts[i]
		if n >= rank {
			upper := h.bounds[i]
			if i == last {
				upper = lower // beyond the largest bound: at least that
			}
			p99 = lower + (upper-lower)*(rank-below)/(n-below)
			break
		}
		lower, below = h.bounds[i], n
	}
	return 1000 * p99, 1000 * (h.sum - before.sum) / total
}

// cpuTime is the agent's user and system time.
func (a *runningAgent) cpuTime() (time.Duration, error) { return cpuTimeOf(a.command.Process.Pid) }

// ownTimes is that of the agent and of this program.
func (a *runningAgent) ownTimes() (time.Duration, error) {
	agent, err := a.cpuTime()
	if err != nil {
		return 0, err
	}
	own, err := cpuTimeOf(os.Getpid())
	return agent + own, err
}

func cpuTimeOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name in parentheses may hold blanks; utime and stime are the 12th and
	// 13th field after it, in ticks of 10 ms (proc(5)).
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("unexpected stat line %q", text)
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// processorTimes are seconds that all processors together were busy, and had.
type processorTimes struct{ busy, all float64 }

func machineTimes() (t processorTimes, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return t, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(strings.TrimPrefix(line, "cpu ")) {
		ticks, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return t, err
		}
		if i > 7 {
			break // guest time is part of user time
		}
		t.all += ticks / 100
		if i != 3 && i != 4 { // idle and waiting for I/O
			t.busy += ticks / 100
		}
	}
	return t, nil
}

// residentMiB is the resident memory but for the shared memory: the mapped flows.
func (a *runningAgent) residentMiB() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.command.Process.Pid))
	if err != nil {
		return 0, err
	}
	kib := 0.0
	for line := range strings.Lines(string(text)) {
		for _, name := range []string{"RssAnon:", "RssFile:"} {
			if value, ok := strings.CutPrefix(line, name); ok {
				n, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
				if err != nil {
					return 0, err
				}
				kib += n
			}
		}
	}
	return kib / 1024, nil
}

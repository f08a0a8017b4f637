// Package measured runs the agent against simulated peers and reads what it costs.
package measured

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Get gives the body of a document; any status but 200 is an error.
func (a *Agent) Get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+path, nil)
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

// Mirrored waits until that many flows are on disk.
func (a *Agent) Mirrored(ctx context.Context, want int, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		var rows []struct {
			Flows []struct {
				Active bool `json:"active"`
			} `json:"flows"`
		}
		body, err := a.Get(ctx, "/api/v1/mirrors")
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
		if err := Pause(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// Latency asks for a document again and again, and gives the 95th percentile and
// the median in milliseconds, and the agent's processor time for each request, with
// what it does beside them.
func (a *Agent) Latency(ctx context.Context, path string) (p95, median, cpu float64, err error) {
	const requests = 100
	var took []float64
	before, err := a.CPUTime()
	if err != nil {
		return 0, 0, 0, err
	}
	for range requests {
		began := time.Now()
		body, err := a.Get(ctx, path)
		if err != nil {
			return 0, 0, 0, err
		}
		took = append(took, Milliseconds(time.Since(began)))
		if len(body) < 10_000 {
			return 0, 0, 0, fmt.Errorf("%s has only %d bytes", path, len(body))
		}
		if err := Pause(ctx, 20*time.Millisecond); err != nil {
			return 0, 0, 0, err
		}
	}
	after, err := a.CPUTime()
	slices.Sort(took)
	return took[requests*95/100], took[requests/2], Milliseconds(after-before) / requests, err
}

// Milliseconds is a duration in ms.
func Milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

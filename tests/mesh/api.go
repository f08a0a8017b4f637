package mesh

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Do makes a request of the agent and gives status and body, whatever the status
// is.
func (a *Agent) Do(ctx context.Context, method, path string, body any) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.URL+path, content)
	if err != nil {
		return 0, nil, err
	}
	resp, err := a.client().Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return resp.StatusCode, answer, err
}

// Configure changes settings of the file layer while the agent runs.
func (a *Agent) Configure(ctx context.Context, settings map[string]string) error {
	status, body, err := a.Do(ctx, http.MethodPut, "/api/v1/config", settings)
	if err != nil || status != http.StatusOK {
		return fmt.Errorf("PUT /api/v1/config: %d %s %w", status, body, err)
	}
	return nil
}

// Logged gives the lines of the running agent's log with an event name, in which
// every pair of key and value occurs.
func (a *Agent) Logged(event string, pairs ...string) []map[string]string {
	var found []map[string]string
	for line := range bytes.Lines(a.Output()) {
		var record map[string]string
		if json.Unmarshal(line, &record) != nil || record["event"] != event {
			continue
		}
		if !slices.ContainsFunc(pairIndexes(pairs), func(i int) bool { return record[pairs[i]] != pairs[i+1] }) {
			found = append(found, record)
		}
	}
	return found
}

func pairIndexes(pairs []string) []int {
	var indexes []int
	for i := 0; i+1 < len(pairs); i += 2 {
		indexes = append(indexes, i)
	}
	return indexes
}

// Metric is the value of the first sample on the agent's page whose name and
// labels begin with series (without the prefix mxl_fabrics_agent_); 0 when there
// is none.
func (a *Agent) Metric(ctx context.Context, series string) (float64, error) {
	status, body, err := a.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil || status != http.StatusOK {
		return 0, fmt.Errorf("GET /metrics: %d %w", status, err)
	}
	for line := range strings.Lines(string(body)) {
		if rest, ok := strings.CutPrefix(line, "mxl_fabrics_agent_"+series); ok {
			fields := strings.Fields(rest)
			return strconv.ParseFloat(fields[len(fields)-1], 64)
		}
	}
	return 0, nil
}

// Event is one event of GET /api/v1/events.
type Event struct {
	Name string
	Data string
}

// Events follows the agent's event stream until ctx ends or the agent does. The
// stream stands when Events returns.
func (a *Agent) Events(ctx context.Context) (<-chan Event, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+"/api/v1/events", nil)
	if err != nil {
		return nil, err
	}
	resp, err := a.client().Do(req)
	if err != nil {
		return nil, err
	}
	events := make(chan Event, 1024) // more than a test makes
	go func() {
		defer close(events)
		defer resp.Body.Close()
		var e Event
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			switch line := lines.Text(); {
			case line == "" && e.Name != "":
				select {
				case events <- e:
				case <-ctx.Done():
					return
				}
				e = Event{}
			case strings.HasPrefix(line, "event: "):
				e.Name = strings.TrimPrefix(line, "event: ")
			case strings.HasPrefix(line, "data: "):
				e.Data = strings.TrimPrefix(line, "data: ")
			}
		}
	}()
	return events, nil
}

// MirrorRow is one entry of GET /api/v1/mirrors, as far as tests look at it.
type MirrorRow struct {
	DomainID string `json:"domain_id"`
	Path     string `json:"path"`
	Origin   struct {
		HostID string `json:"host_id"`
		PeerUp bool   `json:"peer_up"`
		OnPeer bool   `json:"on_peer"`
		Local  bool   `json:"local"`
	} `json:"origin"`
	State        string      `json:"state"`
	OnDisk       bool        `json:"on_disk"`
	Demand       bool        `json:"demand"`
	IdleSince    *int64      `json:"idle_since"`
	Readers      []ReaderRow `json:"readers"`
	ReadersKnown bool        `json:"readers_known"`
	ReadersError string      `json:"readers_error"`
	Flows        []struct {
		FlowID string `json:"flow_id"`
		State  string `json:"state"`
		Active bool   `json:"active"`
		Health struct {
			State             string  `json:"state"`
			Reason            string  `json:"reason"`
			Rebuilds          int     `json:"rebuilds"`
			LastRebuild       *int64  `json:"last_rebuild"`
			LastRebuildReason *string `json:"last_rebuild_reason"`
		} `json:"health"`
	} `json:"flows"`
}

// ReaderRow is a process that maps a mirror.
type ReaderRow struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
}

// Mirror is the agent's row of a domain.
func (a *Agent) Mirror(ctx context.Context, domainID string) (MirrorRow, error) {
	var rows []MirrorRow
	if err := a.Get(ctx, "/api/v1/mirrors", &rows); err != nil {
		return MirrorRow{}, err
	}
	for _, row := range rows {
		if row.DomainID == domainID {
			return row, nil
		}
	}
	return MirrorRow{}, fmt.Errorf("no mirror of domain %s", domainID)
}

package mesh

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// Flow is a flow that mxl-pattern writes on one host and reads on the other.
type Flow struct {
	Name     string // of its processes and log files
	DomainID string
	ID       string
	Domain   string   // directory name below the writer's MXL root
	Options  []string // of mxl-pattern write: the format
}

// Totals is what mxl-pattern read prints at its end, as far as it is used here.
type Totals struct {
	Verified     uint64  `json:"verified"`
	Bytes        uint64  `json:"bytes"`
	Lost         uint64  `json:"lost"`
	Gaps         uint64  `json:"gaps"`
	TooLate      uint64  `json:"too_late"`
	Invalid      uint64  `json:"invalid"`
	Bad          uint64  `json:"bad"`
	FirstBad     string  `json:"first_bad"`
	Seconds      float64 `json:"seconds"`
	Rate         float64 `json:"rate"`
	LatencyP50MS float64 `json:"latency_p50_ms"`
	LatencyP99MS float64 `json:"latency_p99_ms"`
	LatencyMaxMS float64 `json:"latency_max_ms"`
}

// Written is what mxl-pattern write prints at its end, as far as it is used
// here.
type Written struct {
	Grains      uint64 `json:"grains"`
	Samples     uint64 `json:"samples"`
	LateSkipped uint64 `json:"late_skipped"`
}

// LostInTransit is what the reader missed and the writer wrote: indexes that the
// writer itself left out, because it was late on a busy machine, are not the
// agents' to deliver. It is what it says as long as the writer skipped nothing
// outside the time of the reader, and too small otherwise.
func (t Totals) LostInTransit(w Written) uint64 { return t.Lost - min(t.Lost, t.Gaps, w.LateSkipped) }

// Write starts a writer of the flow on a host; it goes on until it is stopped.
func (m *Mesh) Write(on *Agent, f Flow) (*Process, error) {
	return m.Run("write-"+f.Name, "mxl-pattern", f.WriteArguments(on)...)
}

// WriteArguments are mxl-pattern's for writing the flow on a host.
func (f Flow) WriteArguments(on *Agent) []string {
	arguments := append([]string{"write", "--json", "--domain-id", f.DomainID, "--flow-id", f.ID}, f.Options...)
	return append(arguments, filepath.Join(on.Root, f.Domain))
}

// Read starts a reader that verifies the flow's mirror on a host for a time,
// counted from its first grain.
func (m *Mesh) Read(on *Agent, f Flow, duration time.Duration) (*Process, error) {
	return m.Run("read-"+f.Name, "mxl-pattern", f.ReadArguments(on, duration)...)
}

// ReadArguments are mxl-pattern's for verifying the flow's mirror on a host.
func (f Flow) ReadArguments(on *Agent, duration time.Duration) []string {
	return []string{"read", "--json", "--no-invalid", "--wait", "20s",
		"--duration", duration.String(), on.MirrorDomain(f.DomainID), f.ID}
}

// Result decodes the JSON that a process printed at its end.
func Result[T any](p *Process) (result T, err error) {
	<-p.Done()
	if err := json.Unmarshal(p.Output(), &result); err != nil {
		return result, fmt.Errorf("%s ended with code %d and no result (%w), see %s", p.Name, p.ExitCode(), err, p.Log)
	}
	return result, nil
}

// Connect points a receiver (by number) at the flow over IS-05, as a controller
// does.
func (m *Mesh) Connect(ctx context.Context, receiver int, f Flow) error {
	node := m.NMOS.Nodes()[0]
	return Activate(ctx, m.client, node.URL(), node.Receivers()[receiver].ID, &f)
}

// Activate points a receiver of a media node (an origin) at a flow; nil disables
// the receiver.
func Activate(ctx context.Context, client *http.Client, node, receiver string, f *Flow) error {
	staged := map[string]any{"master_enable": f != nil, "activation": map[string]string{"mode": "activate_immediate"}}
	if f != nil {
		staged["transport_params"] = []any{map[string]string{"mxl_domain_id": f.DomainID, "mxl_flow_id": f.ID}}
	}
	body, err := json.Marshal(staged)
	if err != nil {
		return err
	}
	url := node + "/x-nmos/connection/v1.2/single/receivers/" + receiver + "/staged"
	req, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		return fmt.Errorf("PATCH %s: %s: %s (%v)", url, resp.Status, answer, err)
	}
	return nil
}

// Flowing waits until B shows the flow's replication as active with something
// transferred.
func (m *Mesh) Flowing(ctx context.Context, f Flow, limit time.Duration) error {
	return Eventually(ctx, limit, "flow "+f.Name+" arrives at "+m.B.HostID, func() error {
		row, err := m.B.Replication(ctx, f.ID)
		if err != nil {
			return err
		}
		if row.State != "active" || row.Grains == 0 {
			return fmt.Errorf("replication is %s with %d transfers, last error %q", row.State, row.Grains, row.LastError)
		}
		return nil
	})
}

// Replication is the agent's destination row of a flow.
func (a *Agent) Replication(ctx context.Context, flowID string) (Replication, error) {
	rows, err := a.Replications(ctx)
	if err != nil {
		return Replication{}, err
	}
	for _, row := range rows {
		if row.FlowID == flowID && row.Role == "destination" {
			return row, nil
		}
	}
	return Replication{}, fmt.Errorf("no replication of flow %s", flowID)
}

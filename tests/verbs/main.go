// Command verbs replicates small video, audio and ancillary flows between two agents
// over the verbs devices at 10.77.0.1 and 10.77.0.2, verifies every byte, compares
// what the queue pairs report with the settings, and cuts the link until the queue
// pairs fail. It runs in the machine that tests/verbs/run.sh starts. Results are
// printed as lines "RESULT name number". With -part tcp it runs the links of which one
// end cannot have verbs, anywhere.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// settings of the queue pairs. 7 retries are for ever on this rxe, so that a dead
// link would never fail one.
const (
	ackTimeout = "14"
	retryCount = "6"
)

func flows() []mesh.Flow {
	const studio, sound, captions = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e11", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e12", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e13"
	return []mesh.Flow{
		{Name: "video", DomainID: studio, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b11", Domain: "studio",
			Options: []string{"--format", "v210", "--width", "192", "--height", "108", "--rate", "25", "--history-ms", "400"}},
		{Name: "audio", DomainID: sound, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b12", Domain: "sound",
			Options: []string{"--format", "audio", "--channels", "2", "--batch", "480", "--history-ms", "400"}},
		{Name: "data", DomainID: captions, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5b13", Domain: "captions",
			Options: []string{"--format", "smpte291", "--rate", "25", "--history-ms", "400"}},
	}
}

func main() {
	duration := flag.Duration("duration", time.Minute, "how `long` to verify")
	binaries := flag.String("bin", "build/bin", "`directory` of the built programs")
	logs := flag.String("logs", "build/verbs/logs", "`directory` of the logs")
	part := flag.String("part", "verbs", "`what` to run: verbs, or tcp (the links of which an end falls back; needs no device)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := fmt.Errorf("there is no part %q", *part)
	switch *part {
	case "verbs":
		err = run(ctx, *binaries, *logs, *duration)
	case "tcp":
		err = withoutDevices(ctx, *binaries, *logs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "verbs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binaries, logs string, duration time.Duration) error {
	all := flows()
	m, err := mesh.New(mesh.Options{Binaries: binaries, Logs: logs, Receivers: len(all), Environment: map[string]string{
		"DEFAULT_PROVIDER": "verbs", "FABRIC_ACK_TIMEOUT": ackTimeout, "FABRIC_RETRY_COUNT": retryCount,
	}})
	if err != nil {
		return err
	}
	defer m.Close()
	if err := start(ctx, m); err != nil {
		return err
	}
	writers := make([]*mesh.Process, len(all))
	for i, f := range all {
		if writers[i], err = m.Write(m.A, f); err != nil {
			return err
		}
		if err := m.Connect(ctx, i, f); err != nil {
			return err
		}
	}
	for _, f := range all {
		if err := m.Flowing(ctx, f, time.Minute); err != nil {
			return err
		}
	}
	err = errors.Join(verify(ctx, m, all, writers, duration), queuePairs(ctx, m, len(all)), cut(ctx, m, all))
	for _, w := range writers {
		w.Stop(10 * time.Second)
	}
	return err
}

// start runs both agents, each bound to its own address.
func start(ctx context.Context, m *mesh.Mesh) error {
	for _, h := range []struct {
		own, peer     *mesh.Agent
		local, remote string
	}{{m.A, m.B, "10.77.0.1", "10.77.0.2"}, {m.B, m.A, "10.77.0.2", "10.77.0.1"}} {
		peers, err := json.Marshal([]map[string]string{{
			"host_id": h.peer.HostID, "control_url": h.peer.URL + "/api/v1", "provider": "verbs",
			"local_fabric_addr": h.local, "remote_fabric_addr": h.remote,
		}})
		if err != nil {
			return err
		}
		h.own.Set("PEERS", string(peers))
		h.own.Set("FABRIC_INTERFACE", h.local)
		if err := h.own.Start(ctx); err != nil {
			return err
		}
		said := h.own.Logged("fabric_qp_settings", "rdma_cm_hooks", "true", "ack_timeout", ackTimeout, "retry_count", retryCount)
		if len(said) != 1 {
			return fmt.Errorf("%s does not say that the queue pairs are in its hands, see %s", h.own.HostID, h.own.Log)
		}
	}
	return nil
}

// verify reads every mirror for a time.
func verify(ctx context.Context, m *mesh.Mesh, all []mesh.Flow, writers []*mesh.Process, duration time.Duration) error {
	readers := make([]*mesh.Process, len(all))
	var err error
	for i, f := range all {
		if readers[i], err = m.Read(m.B, f, duration); err != nil {
			return err
		}
	}
	limit := time.NewTimer(duration + time.Minute)
	defer limit.Stop()
	for _, r := range readers {
		select {
		case <-r.Done():
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return fmt.Errorf("%s has not ended: nothing arrives", r.Name)
		}
	}
	grains, samples := uint64(0), uint64(0)
	var failed []error
	for i, f := range all {
		got, err := mesh.Result[mesh.Totals](readers[i])
		if err != nil {
			return err
		}
		row, err := m.B.Replication(ctx, f.ID)
		if err != nil {
			return err
		}
		fmt.Printf("%-6s %d verified, %d lost, %d bad, %d invalid in %.1f s; age p50 %.2f ms, p99 %.2f ms, max %.2f ms; %d errors\n",
			f.Name, got.Verified, got.Lost, got.Bad, got.Invalid, got.Seconds, got.LatencyP50MS, got.LatencyP99MS, got.LatencyMaxMS, row.Errors)
		if f.Name == "audio" {
			samples += got.Lost
		} else {
			grains += got.Lost
		}
		if got.Bad > 0 || got.Invalid > 0 || got.Lost > 0 || got.Seconds < duration.Seconds()-1 {
			failed = append(failed, fmt.Errorf("%s: %d lost, %d bad (%s), %d invalid, %.1f s", f.Name, got.Lost, got.Bad, got.FirstBad, got.Invalid, got.Seconds))
		}
	}
	fmt.Printf("RESULT grains_lost %d\nRESULT samples_lost %d\nRESULT seconds %.0f\n", grains, samples, duration.Seconds())
	return errors.Join(failed...)
}

// queuePairs compares the log and the metrics of both agents with the settings.
func queuePairs(ctx context.Context, m *mesh.Mesh, flows int) error {
	for agent, role := range map[*mesh.Agent]string{m.A: "source", m.B: "destination"} {
		lines := agent.Logged("fabric_qp", "role", role)
		if len(lines) < flows {
			return fmt.Errorf("%s logged %d queue pairs as %s of %d flows", agent.HostID, len(lines), role, flows)
		}
		for _, line := range lines {
			if line["ack_timeout"] != ackTimeout || line["retry_count"] != retryCount || line["checked"] != "true" || line["applied"] != "true" ||
				line["level"] != "info" || line["flow_id"] == "" || line["peer"] == "" {
				return fmt.Errorf("%s: %v", agent.HostID, line)
			}
		}
		series := fmt.Sprintf("fabric_qp_established_total{ack_timeout=%q,retry_count=%q,role=%q}", ackTimeout, retryCount, role)
		if n, err := agent.Metric(ctx, series); err != nil || int(n) != len(lines) {
			return fmt.Errorf("%s: %s is %v for %d queue pairs (%w)", agent.HostID, series, n, len(lines), err)
		}
		if role == "source" {
			fmt.Printf("RESULT ack_timeout_read_back %s\nRESULT retry_count_read_back %s\n", lines[0]["ack_timeout"], lines[0]["retry_count"])
		}
	}
	return nil
}

// cut makes host 1 lose everything until its queue pairs have failed, and expects
// every flow back.
func cut(ctx context.Context, m *mesh.Mesh, all []mesh.Flow) error {
	before, err := m.A.Metric(ctx, "peer_rdma_retransmits_total")
	if err != nil {
		return err
	}
	targets := map[string]int{}
	for _, f := range all {
		targets[f.ID] = len(m.B.Logged("fabric_endpoint", "role", "destination", "flow_id", f.ID))
	}
	if err := netem("replace", "loss", "100%"); err != nil {
		return err
	}
	began := time.Now()
	err = mesh.Eventually(ctx, 30*time.Second, "source_connection_lost of every flow", func() error {
		for _, f := range all {
			if len(m.A.Logged("source_connection_lost", "flow_id", f.ID)) == 0 {
				return fmt.Errorf("not of %s", f.Name)
			}
		}
		return nil
	})
	noticed := time.Since(began)
	if err := errors.Join(err, netem("del")); err != nil {
		return err
	}
	began = time.Now()
	heads := map[string]uint64{}
	for _, f := range all {
		row, err := m.B.Replication(ctx, f.ID)
		if err != nil {
			return err
		}
		heads[f.ID] = row.HeadIndex
	}
	for _, f := range all {
		err := mesh.Eventually(ctx, 30*time.Second, f.Name+" flows again", func() error {
			row, err := m.B.Replication(ctx, f.ID)
			if err == nil && (row.State != "active" || row.HeadIndex <= heads[f.ID]) {
				err = fmt.Errorf("%s at %d, last error %q", row.State, row.HeadIndex, row.LastError)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	flowing := time.Since(began)
	for _, f := range all {
		if n := len(m.B.Logged("fabric_endpoint", "role", "destination", "flow_id", f.ID)); n == targets[f.ID] {
			return fmt.Errorf("%s flows again, but there is no new target", f.Name)
		}
	}
	var after float64
	// The agent reads the device's counter once a second.
	err = mesh.Eventually(ctx, 5*time.Second, "peer_rdma_retransmits_total rises", func() (err error) {
		if after, err = m.A.Metric(ctx, "peer_rdma_retransmits_total"); err == nil && after <= before {
			err = fmt.Errorf("it is %v", after)
		}
		return err
	})
	if err != nil {
		return err
	}
	fmt.Printf("cut: connections given up after %d ms, all flows back %d ms after the link; %.0f retransmissions counted\n",
		noticed.Milliseconds(), flowing.Milliseconds(), after-before)
	fmt.Printf("RESULT failed_queue_pair_ms %d\nRESULT flowing_again_ms %d\nRESULT retransmits_counted %s\n",
		noticed.Milliseconds(), flowing.Milliseconds(), strconv.FormatFloat(after-before, 'f', 0, 64))
	return nil
}

// netem changes what host 1 loses of what it sends.
func netem(action string, impairment ...string) error {
	arguments := []string{"qdisc", action, "dev", "h1", "root"}
	if len(impairment) > 0 {
		arguments = append(append(arguments, "netem", "limit", "10000"), impairment...)
	}
	if out, err := exec.Command("tc", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("tc %v: %w: %s", arguments, err, out)
	}
	return nil
}

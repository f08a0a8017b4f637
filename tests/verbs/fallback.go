package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// end is how one end of a link is set.
type end struct {
	provider string
	fallback bool // PROVIDER_FALLBACK=tcp
}

func (e end) String() string {
	if e.fallback {
		return e.provider + ", tcp if need be"
	}
	return e.provider
}

// link is what comes of two ends where nobody has verbs: 127.0.0.1 is the address of
// no RDMA device.
type link struct {
	source, destination end
	// reason is what the destination shows when nothing can flow; empty when it does.
	reason string
	// fallen are the ends that show fallback: true.
	sourceFallen, destinationFallen bool
}

var links = []link{
	{source: end{"verbs", true}, destination: end{"verbs", true}, sourceFallen: true, destinationFallen: true},
	{source: end{"verbs", true}, destination: end{"tcp", false}, sourceFallen: true},
	{source: end{"tcp", false}, destination: end{"verbs", true}, destinationFallen: true},
	{source: end{"verbs", false}, destination: end{"verbs", true}, reason: "provider verbs has no interface for 127.0.0.1"},
	{source: end{"verbs", true}, destination: end{"verbs", false}, reason: "provider verbs has no interface for 127.0.0.1"},
	{source: end{"verbs", false}, destination: end{"tcp", false}, reason: "provider verbs has no interface for 127.0.0.1"},
}

// withoutDevices runs the links of which one end or both fall back to tcp, and then
// breaks a connection over tcp.
func withoutDevices(ctx context.Context, binaries, logs string) error {
	for i, l := range links {
		if err := fallBack(ctx, binaries, filepath.Join(logs, fmt.Sprintf("link-%d", i)), l); err != nil {
			return fmt.Errorf("source %s, destination %s: %w", l.source, l.destination, err)
		}
	}
	fmt.Printf("RESULT fallback_links %d\n", len(links))
	return nil
}

func fallBack(ctx context.Context, binaries, logs string, l link) error {
	m, err := mesh.New(mesh.Options{Binaries: binaries, Logs: logs, Receivers: 1})
	if err != nil {
		return err
	}
	defer m.Close()
	for _, h := range []struct {
		own, peer *mesh.Agent
		end       end
	}{{m.A, m.B, l.source}, {m.B, m.A, l.destination}} {
		peers, err := json.Marshal([]map[string]string{{
			"host_id": h.peer.HostID, "control_url": h.peer.URL + "/api/v1", "provider": h.end.provider,
			"local_fabric_addr": "127.0.0.1", "remote_fabric_addr": "127.0.0.1",
		}})
		if err != nil {
			return err
		}
		h.own.Set("PEERS", string(peers))
		if h.end.fallback {
			h.own.Set("PROVIDER_FALLBACK", "tcp")
		}
		if err := h.own.Start(ctx); err != nil {
			return err
		}
	}
	f := flows()[2]
	if _, err := m.Write(m.A, f); err != nil {
		return err
	}
	if err := m.Connect(ctx, 0, f); err != nil {
		return err
	}
	if l.reason != "" {
		return shown(ctx, m, f, l.reason)
	}
	if err := m.Flowing(ctx, f, time.Minute); err != nil {
		return err
	}
	for agent, fallen := range map[*mesh.Agent]bool{m.A: l.sourceFallen, m.B: l.destinationFallen} {
		var rows []struct {
			Provider string `json:"provider"`
			Fallback bool   `json:"fallback"`
		}
		if err := agent.Get(ctx, "/api/v1/replications", &rows); err != nil {
			return err
		}
		if len(rows) != 1 || rows[0].Provider != "tcp" || rows[0].Fallback != fallen {
			return fmt.Errorf("%s shows %+v, want tcp, fallback %v", agent.HostID, rows, fallen)
		}
	}
	fmt.Printf("source %s, destination %s: flows\n", l.source, l.destination)
	if l.source.fallback && l.destination.fallback {
		return breakOff(ctx, m, f)
	}
	return nil
}

// shown waits until the destination says why nothing flows, in its row and in the
// explanation.
func shown(ctx context.Context, m *mesh.Mesh, f mesh.Flow, reason string) error {
	return mesh.Eventually(ctx, time.Minute, "the reason at "+m.B.HostID, func() error {
		row, err := m.B.Replication(ctx, f.ID)
		if err != nil {
			return err
		}
		if row.State != "error" || !strings.Contains(row.LastError, reason) {
			return fmt.Errorf("%s, %q", row.State, row.LastError)
		}
		var said struct {
			OK      bool   `json:"ok"`
			Summary string `json:"summary"`
			Steps   []struct{ What, Remedy string }
		}
		if err := m.B.Get(ctx, "/api/v1/explain/"+f.DomainID+"/"+f.ID, &said); err != nil {
			return err
		}
		if said.OK || !strings.Contains(fmt.Sprint(said), reason) {
			return fmt.Errorf("explained as %+v", said)
		}
		fmt.Printf("%s: %s\n", m.B.HostID, row.LastError)
		return nil
	})
}

// breakOff ends the connection of a flow over tcp from outside and expects the source
// to say so, the destination to make a new target, and grains again.
func breakOff(ctx context.Context, m *mesh.Mesh, f mesh.Flow) error {
	made := func() int {
		return len(m.B.Logged("fabric_endpoint", "role", "destination", "flow_id", f.ID))
	}
	before := made()
	row, err := m.B.Replication(ctx, f.ID)
	if err != nil {
		return err
	}
	address := m.B.Logged("fabric_endpoint", "role", "destination", "flow_id", f.ID)[before-1]["address"]
	began := time.Now()
	if out, err := exec.Command("ss", "-K", "-t", "dst", address).CombinedOutput(); err != nil {
		return fmt.Errorf("ss: %w: %s", err, out)
	}
	err = mesh.Eventually(ctx, 30*time.Second, "the flow over a new target", func() error {
		switch now, err := m.B.Replication(ctx, f.ID); {
		case err != nil:
			return err
		case len(m.A.Logged("source_connection_lost", "flow_id", f.ID)) == 0:
			return errors.New("the source has not lost its connection")
		case made() == before:
			return errors.New("there is no new target")
		case now.State != "active" || now.Grains <= row.Grains+5:
			return fmt.Errorf("%s with %d grains, last error %q", now.State, now.Grains, now.LastError)
		}
		return nil
	})
	if err != nil {
		return err
	}
	took := time.Since(began)
	if lost, targets := len(m.A.Logged("source_connection_lost", "flow_id", f.ID)), made()-before; lost != 1 || targets != 1 {
		return fmt.Errorf("%d connections lost, %d new targets; want one each", lost, targets)
	}
	fmt.Printf("connection over tcp broken off: a new target and five more grains after %d ms\n", took.Milliseconds())
	fmt.Printf("RESULT broken_connection_flowing_ms %d\n", took.Milliseconds())
	return nil
}

// Command lateaddress gives a verbs device its address only after the agent has
// started, once at the destination and once at the source: libfabric has to look
// for it again, or the agent to restart in place. It runs in the machine that
// tests/links/lateaddress.sh starts, and prints lines "RESULT name number".
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
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// foundLimit is how soon grains have to arrive after the address came.
const foundLimit = 5 * time.Second

func main() {
	binaries := flag.String("bin", "build/bin", "`directory` of the built programs")
	logs := flag.String("logs", "build/links/late", "`directory` of the logs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *binaries, *logs); err != nil {
		fmt.Fprintln(os.Stderr, "lateaddress:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binaries, logs string) error {
	// With FI_VERBS_IFACE the provider goes by addresses alone; otherwise it knows a
	// RoCE device by its default GID, too, and needs no second look.
	m, err := mesh.New(mesh.Options{Binaries: binaries, Logs: logs, Receivers: 1, Environment: map[string]string{"DEFAULT_PROVIDER": "verbs", "FI_VERBS_IFACE": "h"}})
	if err != nil {
		return err
	}
	defer m.Close()
	flow := mesh.Flow{Name: "video", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e61", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f9101", Domain: "studio",
		Options: []string{"--format", "v210", "--width", "192", "--height", "108", "--rate", "25", "--history-ms", "1000"}}
	for _, h := range []struct {
		own, peer     *mesh.Agent
		local, remote string
	}{{m.A, m.B, "10.77.0.1", "10.77.0.2"}, {m.B, m.A, "10.77.0.2", "10.77.0.1"}} {
		peers, err := json.Marshal([]map[string]string{{"host_id": h.peer.HostID, "control_url": h.peer.URL + "/api/v1",
			"provider": "verbs", "local_fabric_addr": h.local, "remote_fabric_addr": h.remote}})
		if err != nil {
			return err
		}
		h.own.Set("PEERS", string(peers))
	}
	writer, err := m.Write(m.A, flow)
	if err != nil {
		return err
	}
	if err := m.Connect(ctx, 0, flow); err != nil {
		return err
	}
	if err := errors.Join(take(2), m.A.Start(ctx), m.B.Start(ctx)); err != nil {
		return err
	}
	if err := m.Mirrored(ctx, flow, 30*time.Second); err != nil {
		return err
	}
	reader, err := m.Read(m.B, flow, time.Hour) // until it is stopped
	if err != nil {
		return err
	}
	destination, err := comes(ctx, m, flow, m.B, 2)
	if err != nil {
		return err
	}
	// The reader has waited for the flow; from here on it verifies.
	inode, err := inodeOf(m, flow)
	if err != nil {
		return err
	}

	// Now the source: it ends, and begins again without its address.
	m.A.Stop(15 * time.Second)
	if err := errors.Join(take(1), m.A.Start(ctx)); err != nil {
		return err
	}
	source, err := comes(ctx, m, flow, m.A, 1)
	if err != nil {
		return err
	}
	if err := mesh.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	reader.Stop(10 * time.Second)
	writer.Stop(10 * time.Second)
	got, err := mesh.Result[mesh.Totals](reader)
	if err != nil {
		return err
	}
	now, err := inodeOf(m, flow)
	if err != nil {
		return err
	}
	same := 0
	if now == inode {
		same = 1
	}
	fmt.Printf("RESULT address_found_destination_s %.3f\nRESULT address_found_source_s %.3f\nRESULT grains_verified %d\nRESULT bad_grains %d\nRESULT mirror_inode_kept %d\n",
		destination.Seconds(), source.Seconds(), got.Verified, got.Bad+got.Invalid, same)
	switch {
	case max(destination, source) > foundLimit:
		return fmt.Errorf("the address was found after %v at the destination and %v at the source, later than %v", destination, source, foundLimit)
	case got.Bad > 0 || got.Invalid > 0 || got.Verified == 0:
		return fmt.Errorf("the reader on the mirror: %+v", got)
	case same == 0:
		return errors.New("the mirror is another file")
	}
	return nil
}

// comes gives a host its address and tells after how long a new grain was on the
// mirror; before, the agent says that there is no such address.
func comes(ctx context.Context, m *mesh.Mesh, flow mesh.Flow, at *mesh.Agent, host int) (time.Duration, error) {
	inode, err := inodeOf(m, flow)
	if err != nil {
		return 0, err
	}
	err = mesh.Eventually(ctx, 20*time.Second, at.HostID+" says that the address is missing", func() error {
		if len(at.Logged("peer_link_down")) == 0 {
			return errors.New("no line peer_link_down")
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if err := mesh.Pause(ctx, 3*time.Second); err != nil { // what was on its way has arrived
		return 0, err
	}
	ring, err := m.OpenMirror(m.B, flow)
	if err != nil {
		return 0, err
	}
	defer ring.Close()
	head, pid := ring.Head(), at.PID()
	added := time.Now()
	if err := give(host); err != nil {
		return 0, err
	}
	if err := mesh.NextGrain(ctx, ring, head, 60*time.Second); err != nil {
		return 0, err
	}
	took := time.Since(added)
	now, err := inodeOf(m, flow)
	if err != nil {
		return 0, err
	}
	if now != inode || at.PID() != pid || !at.Running() {
		return 0, fmt.Errorf("mirror %d was %d, process %d was %d, runs: %v", now, inode, at.PID(), pid, at.Running())
	}
	rescans, restarts := at.Logged("fabric_interfaces_rescanned", "status", "found"), at.Logged("restarted_in_place")
	fmt.Printf("%s: address given, a grain on the mirror %.2f s later; %d rescans that found it, %d restarts in place\n", at.HostID, took.Seconds(), len(rescans), len(restarts))
	if len(rescans)+len(restarts) != 1 {
		return 0, fmt.Errorf("%s: %d rescans and %d restarts in place, see %s", at.HostID, len(rescans), len(restarts), at.Log)
	}
	fmt.Printf("RESULT %s_rescans %d\nRESULT %s_restarts_in_place %d\n", role(at, m), len(rescans), role(at, m), len(restarts))
	return took, nil
}

func role(a *mesh.Agent, m *mesh.Mesh) string {
	if a == m.A {
		return "source"
	}
	return "destination"
}

// take leaves a host's device without any address: only such a device is unknown
// to a provider that looks once.
func take(host int) error { return ip("addr", "flush", "dev", "h"+strconv.Itoa(host)) }

// give brings the address back, and with it the route that went with it.
func give(host int) error {
	device, address := "h"+strconv.Itoa(host), "10.77.0."+strconv.Itoa(host)
	return errors.Join(ip("addr", "add", address+"/24", "dev", device),
		ip("route", "replace", "10.77.0.0/24", "dev", device, "src", address, "table", strconv.Itoa(100+host)))
}

func ip(arguments ...string) error {
	if out, err := exec.Command("ip", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, out)
	}
	return nil
}

func inodeOf(m *mesh.Mesh, f mesh.Flow) (uint64, error) {
	info, err := os.Stat(filepath.Join(m.B.MirrorDomain(f.DomainID), f.ID+".mxl-flow", "data"))
	if err != nil {
		return 0, err
	}
	return info.Sys().(*syscall.Stat_t).Ino, nil
}

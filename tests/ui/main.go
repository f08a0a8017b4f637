// Command ui runs the admin page in a browser against two real agents on loopback
// with real flows, a reader on a mirror, a peer that is down, and one that is another
// agent than expected; walk.mjs does the walking. Run it by make ui-test.
package main

import (
	"context"
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

const (
	studio  = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e01"
	sound   = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e02"
	gallery = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e03"
)

var (
	video  = mesh.Flow{Name: "video", DomainID: studio, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c01", Domain: "studio", Options: []string{"--flow-label", "Camera 1", "--format", "v210", "--width", "960", "--height", "540", "--rate", "25", "--history-ms", "400"}}
	data   = mesh.Flow{Name: "data", DomainID: studio, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c02", Domain: "studio", Options: []string{"--flow-label", "Camera 1 captions", "--format", "smpte291", "--rate", "25", "--history-ms", "400"}}
	audio  = mesh.Flow{Name: "audio", DomainID: sound, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c03", Domain: "sound", Options: []string{"--flow-label", "Main mix", "--format", "audio", "--channels", "8", "--batch", "48", "--history-ms", "400"}}
	screen = mesh.Flow{Name: "screen", DomainID: gallery, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c04", Domain: "gallery", Options: []string{"--flow-label", "Lobby screen", "--format", "v210", "--width", "320", "--height", "180", "--rate", "30000/1001", "--history-ms", "400"}}
	// What a writer that means harm, or one that is careless, can put into names.
	hostile = mesh.Flow{Name: "hostile", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e04", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5c05", Domain: "<img src=x onerror=taken=1>", Options: []string{"--label", script, "--flow-label", script, "--format", "v210", "--width", "320", "--height", "180", "--rate", "25", "--history-ms", "400"}}
	nobody  = mesh.Flow{DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4eff", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5cff"}
)

// script turns the direction of writing, breaks lines, and is long.
var script = "\u202e<script>taken=1</script><img src=x onerror=taken=1>{{taken=1}}\n\"'`taken=1` " + strings.Repeat("W", 2000)

func main() {
	stay := flag.Bool("stay", false, "run the site until a signal, without a browser")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := walk(ctx, *stay); err != nil {
		fmt.Fprintln(os.Stderr, "ui:", err)
		os.Exit(1)
	}
}

func walk(ctx context.Context, stay bool) error {
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: "build/ui/logs", Receivers: 7, Environment: map[string]string{
		"SCAN_INTERVAL_MS": "400", "PEER_POLL_INTERVAL_MS": "400", "NMOS_POLL_INTERVAL_MS": "400", "MIRROR_STALE_MS": "",
	}})
	if err != nil {
		return err
	}
	defer m.Close()
	known, err := m.SeeAll(m.B)
	if err != nil {
		return err
	}
	if err := site(ctx, m); err != nil {
		return err
	}
	hold, err := m.Run("hold", "mxl-pattern", "hold", "--wait", "20s", m.B.MirrorDomain(studio), video.ID)
	if err != nil {
		return err
	}
	environment := []string{
		"A=" + m.A.URL, "B=" + m.B.URL, "DOMAIN=" + studio, "HOLD_PID=" + strconv.Itoa(hold.PID()), "READERS_KNOWN=" + strconv.FormatBool(known),
	}
	if stay {
		fmt.Println(environment)
		<-ctx.Done()
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute) // 40 s on an idle machine
	defer cancel()
	node := exec.CommandContext(ctx, "node", "tests/ui/walk.mjs")
	node.Env = append(os.Environ(), environment...)
	node.Stdout, node.Stderr = os.Stdout, os.Stderr
	node.Cancel = func() error { return node.Process.Signal(syscall.SIGTERM) }
	node.WaitDelay = 10 * time.Second
	return node.Run()
}

// site starts everything the page is to show.
func site(ctx context.Context, m *mesh.Mesh) error {
	for _, pair := range [][2]*mesh.Agent{{m.A, m.B}, {m.B, m.A}} {
		own, peer := pair[0], pair[1]
		peers := `[{"host_id":"` + peer.HostID + `","control_url":"` + peer.URL + `/api/v1","provider":"tcp","local_fabric_addr":"127.0.0.1","remote_fabric_addr":"127.0.0.1"},
			{"host_id":"host-c","control_url":"http://127.0.0.1:9/api/v1","provider":"tcp","local_fabric_addr":"127.0.0.1","remote_fabric_addr":"192.0.2.9"}]`
		if own == m.B { // an entry with the control url of another host: this one's
			peers = strings.TrimSuffix(peers, "]") + `,{"host_id":"host-d","control_url":"` + own.URL + `/api/v1","provider":"tcp","local_fabric_addr":"127.0.0.1"}]`
		}
		own.Set("PEERS", peers)
		own.Set("MIRROR_STALE_MS", "") // the test changes it
		if err := own.Start(ctx); err != nil {
			return err
		}
	}
	for _, w := range []struct {
		on   *mesh.Agent
		flow mesh.Flow
	}{{m.A, video}, {m.A, data}, {m.A, audio}, {m.A, hostile}, {m.B, screen}} {
		if _, err := m.Write(w.on, w.flow); err != nil {
			return err
		}
	}
	for receiver, f := range []mesh.Flow{video, data, audio, screen, nobody, hostile} {
		if err := m.Connect(ctx, receiver, f); err != nil {
			return err
		}
	}
	for _, f := range []mesh.Flow{video, data, audio, hostile} {
		if err := m.Flowing(ctx, f, 30*time.Second); err != nil {
			return err
		}
	}
	return spoil(filepath.Join(m.A.Root, "studio"), filepath.Join(m.A.Root, "broken"))
}

// spoil makes a flow that cannot be replicated, and a domain that cannot be used.
func spoil(domain, unusable string) error {
	flow := filepath.Join(domain, "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5cee.mxl-flow")
	return errors.Join(
		os.MkdirAll(flow, 0o755), os.WriteFile(filepath.Join(flow, "flow_def.json"), []byte(`{"format":"urn:x-nmos:format:video"}`), 0o600),
		os.MkdirAll(unusable, 0o755), os.WriteFile(filepath.Join(unusable, "domain_def.json"), []byte(`{"id":17}`), 0o600),
	)
}

package plant

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The networks of the contract's example come first, and no two are one.
func TestNetworks(t *testing.T) {
	seen := map[netip.Prefix]bool{}
	for number := range mostHosts * (mostHosts - 1) / 2 {
		network := linkNet(number)
		if seen[network] || network.Masked() != network || network.Overlaps(controlNet) {
			t.Fatalf("link %d: network %v", number, network)
		}
		seen[network] = true
	}
	if a, b := nth(linkNet(0), 1).String(), nth(linkNet(1), 3).String(); a != "192.0.2.1/24" || b != "198.51.100.3/24" {
		t.Errorf("%s, %s", a, b)
	}
	if name := deviceTo("a-host-with-a-long-name"); name != "to-a-host-with-" {
		t.Errorf("device %q", name)
	}
}

func TestAbandoned(t *testing.T) {
	mounts := "tmpfs /dev/shm tmpfs rw 0 0\nmxl-plant-17 /dev/shm/mxl-mesh-1/node-a tmpfs rw 0 0\n" +
		"mxl-plant-18 /dev/shm/mxl-mesh-2/node-a tmpfs rw 0 0\nmxl-plant-17 /x ext4 rw 0 0\n\nmxl-plant-17\n"
	got := abandoned(mounts, func(pid string) bool { return pid == "17" })
	if !slices.Equal(got, []string{"/dev/shm/mxl-mesh-1/node-a"}) {
		t.Error(got)
	}
	if ended(fmt.Sprint(os.Getpid())) || ended("x") {
		t.Error("a living process or no process id has ended")
	}
}

// A user who is not root is told so. The rest of this package takes root.
func TestNotRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("this is root")
	}
	if _, err := New(Options{Binaries: "/nowhere", Logs: t.TempDir()}); !errors.Is(err, ErrNotRoot) {
		t.Error(err)
	}
}

func binaries(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	build := exec.Command("go", "build", "-o", directory+"/", "../../cmd/mxl-fabrics-agent", "../../cmd/mxl-pattern", "../nmosstandin/cmd/nmos-standin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v: %s", err, out)
	}
	return directory
}

func made(t *testing.T, o Options) *Plant {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip(ErrNotRoot)
	}
	o.Logs = filepath.Join(t.TempDir(), "logs")
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Two plants have the same addresses and see nothing of each other; nothing of
// them is left.
func TestPlantsSideBySide(t *testing.T) {
	first, second := made(t, Options{Binaries: "/nowhere"}), made(t, Options{Binaries: "/nowhere", Switched: true})
	for _, p := range []*Plant{first, second} {
		var names []string
		for _, h := range p.Hosts {
			names = append(names, h.HostID)
		}
		if !slices.Equal(names, []string{"node-a", "node-b", "node-c"}) || p.Host("node-c") != p.Hosts[2] || p.Host("node-d") != nil {
			t.Errorf("hosts %v", names)
		}
	}
	a, b, c := first.Hosts[0], first.Hosts[1], first.Hosts[2]
	if got := fmt.Sprint(a.End(b).Prefix, b.End(a).Prefix, a.End(c).Prefix, c.End(a).Prefix); got != "192.0.2.1/24 192.0.2.2/24 198.51.100.1/24 198.51.100.3/24" {
		t.Error(got)
	}
	carrier := func(h *Host, device string) string {
		out, err := exec.Command("ip", "netns", "exec", h.namespace.name, "cat", "/sys/class/net/"+device+"/carrier").CombinedOutput()
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(string(out))
	}
	ends := func() string {
		return carrier(a, "to-node-b") + carrier(b, "to-node-a") + carrier(a, "to-node-c") + carrier(second.Hosts[0], "fabric0")
	}
	if got := ends(); got != "1111" {
		t.Errorf("carriers %q", got)
	}
	if err := first.Cable(b, a).Down(); err != nil {
		t.Fatal(err)
	}
	if got := ends(); got != "0011" {
		t.Errorf("carriers with the cable pulled %q", got)
	}
	if err := errors.Join(first.Cable(a, b).Up(), second.Cable(second.Hosts[0], nil).Down()); err != nil {
		t.Fatal(err)
	}
	if got := ends(); got != "1110" {
		t.Errorf("carriers with the cable plugged in and another pulled %q", got)
	}
	end := a.End(b)
	if err := errors.Join(end.AddressRemove(), end.AddressAdd()); err != nil {
		t.Error(err)
	}
	if err := end.AddressAdd(); err == nil || !strings.Contains(err.Error(), "add 192.0.2.1/24 at to-node-b of "+a.namespace.name) {
		t.Errorf("an address that is there: %v", err)
	}
	prefixes := []string{first.prefix, second.prefix}
	if err := errors.Join(first.Close(), second.Close(), second.Close()); err != nil {
		t.Error(err)
	}
	left, err := os.ReadDir(namespaces)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.HasPrefix(e.Name(), prefixes[0]) || strings.HasPrefix(e.Name(), prefixes[1]) {
			t.Errorf("namespace %s is left", e.Name())
		}
	}
	if _, err := os.Stat(a.Root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", a.Root, err)
	}
}

// One origin goes to two hosts on two local addresses, by the controller's
// activation, in both kinds of plant. The registry that tells the agents of each
// other is a program of its own.
func TestFanOut(t *testing.T) {
	built := binaries(t)
	for _, switched := range []bool{false, true} {
		t.Run(fmt.Sprintf("switched=%v", switched), func(t *testing.T) {
			p := made(t, Options{Binaries: built, Switched: switched})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := p.Start(ctx); err != nil {
				t.Fatal(err)
			}
			f := mesh.Flow{Name: "video", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e41", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f8001", Domain: "studio",
				Options: []string{"--format", "v210", "--width", "320", "--height", "180", "--rate", "50", "--history-ms", "400"}}
			writer, err := p.Hosts[0].Write(f)
			if err != nil {
				t.Fatal(err)
			}
			var readers []*mesh.Process
			for _, h := range p.Hosts[1:] {
				if err := h.Connect(ctx, 1, f); err != nil {
					t.Fatal(err)
				}
				if err := h.Flowing(ctx, f, 30*time.Second); err != nil {
					t.Fatal(err)
				}
				reader, err := h.Read(f, time.Second)
				if err != nil {
					t.Fatal(err)
				}
				readers = append(readers, reader)
			}
			for _, r := range readers {
				got, err := mesh.Result[mesh.Totals](r)
				if err != nil || got.Verified == 0 || got.Bad != 0 {
					t.Errorf("%s: %+v, %v", r.Name, got, err)
				}
			}
			status, body, err := p.RegistryControl(ctx, "GET", "/registered", nil)
			var nodes []json.RawMessage
			if err := errors.Join(err, json.Unmarshal(body, &nodes)); err != nil || status != 200 || len(nodes) != 6 {
				t.Errorf("registry: %d, %d nodes, %v", status, len(nodes), err)
			}
			if err := p.Hosts[1].Disconnect(ctx, 1); err != nil {
				t.Error(err)
			}
			if err := p.Hosts[1].Connect(ctx, 9, f); err == nil {
				t.Error("there is no receiver 9")
			}
			// A stopped program ends in order as well, and need not be killed.
			stopped := p.Hosts[2]
			writer.Signal(syscall.SIGSTOP)
			stopped.Signal(syscall.SIGSTOP)
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if a, w := stopped.ExitCode(), writer.ExitCode(); a != 128+15 || w != 0 {
				t.Errorf("the agent ended with code %d, the writer with %d", a, w)
			}
		})
	}
}

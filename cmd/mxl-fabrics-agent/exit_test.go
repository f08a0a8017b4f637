package main

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// freePorts gives the first of n consecutive ports that nobody listens on now. They
// are below those that outgoing connections take.
func freePorts(t *testing.T, n int) int {
	t.Helper()
	const low, high = 10000, 32000
	for range 200 {
		base, taken := low+rand.IntN(high-low-n), false
		for port := base; port < base+n && !taken; port++ {
			l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
			if taken = err != nil; !taken {
				l.Close()
			}
		}
		if !taken {
			return base
		}
	}
	t.Fatalf("no %d free ports in a row", n)
	return 0
}

// portsOf are the settings of an agent with WEB_PORT base, NMOS_PORT the next, and
// the target ports after those.
func portsOf(base int) []string {
	return []string{"WEB_PORT=" + strconv.Itoa(base), "NMOS_PORT=" + strconv.Itoa(base+1), "FABRIC_PORT_BASE=" + strconv.Itoa(base+ownPorts), "FABRIC_PORT_COUNT=20"}
}

// ownPorts are WEB_PORT, NMOS_PORT and the one after it; testPorts all of an agent's.
const (
	ownPorts  = 3
	testPorts = ownPorts + 20
)

// settings are those of an agent that starts on this machine, whatever it has, at
// these ports.
func settings(t *testing.T, ports int, more ...string) []string {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "mxl")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	own := append(portsOf(ports), "HOST_ID=node-a", "MXL_ROOT="+root, "STATE_DIR="+filepath.Join(dir, "state"), "DEFAULT_PROVIDER=tcp",
		"FABRIC_INTERFACE=127.0.0.1", "NMOS_HOST_ADDRESS=192.0.2.1")
	return append(own, more...)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestExit78: an invalid setting, in the environment or in the file, ends the start
// with one line that names key and value (contract, "Exit codes").
func TestExit78(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "agent.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	base := freePorts(t, testPorts)
	nmos := strconv.Itoa(base + 1)
	bad := file(`{"NMOS_REGISTRY_ADDRESS":"http://registry"}`)
	for _, c := range []struct {
		name        string
		environment []string
		key, value  string
	}{
		{"number", []string{"SCAN_INTERVAL_MS=soon"}, "SCAN_INTERVAL_MS", "soon"},
		{"range", []string{"AUDIO_PASS_MS=5"}, "AUDIO_PASS_MS", "5"},
		{"registry", []string{"NMOS_REGISTRY_ADDRESS=192.0.2.1:3210"}, "NMOS_REGISTRY_ADDRESS", "192.0.2.1:3210"},
		{"registry, NMOS off", []string{"NMOS_ENABLE=false", "NMOS_REGISTRY_ADDRESS=1.2.3.400"}, "NMOS_REGISTRY_ADDRESS", "1.2.3.400"},
		{"query", []string{"NMOS_QUERY_ADDRESS=two words"}, "NMOS_QUERY_ADDRESS", "two words"},
		{"fabric interface", []string{"FABRIC_INTERFACE=10.0.0.999"}, "FABRIC_INTERFACE", "10.0.0.999"},
		{"host address", []string{"NMOS_HOST_ADDRESS=node-a"}, "NMOS_HOST_ADDRESS", "node-a"},
		{"peer", []string{`PEERS=[{"host_id":"b","local_fabric_addr":"10.0.0.999"}]`}, "PEERS", `[{"host_id":"b","local_fabric_addr":"10.0.0.999"}]`},
		{"control url", []string{`PEERS=[{"host_id":"b","control_url":"b:8095"}]`}, "PEERS", `[{"host_id":"b","control_url":"b:8095"}]`},
		{"cidr", []string{"LOCAL_NODE_CIDRS=10.0.0.0"}, "LOCAL_NODE_CIDRS", "10.0.0.0"},
		{"ports", []string{"WEB_PORT=" + nmos}, "WEB_PORT", nmos},
		{"alias", []string{"MXL_DOMAIN_SCAN_PATH=/another"}, "MXL_DOMAIN_SCAN_PATH", "/another"},
		{"no directory", []string{"MXL_ROOT=/proc/none"}, "MXL_DOMAIN_SCAN_PATH", "/proc/none"},
		{"in the file", []string{"AGENT_CONFIG_FILE=" + bad}, "NMOS_REGISTRY_ADDRESS", "http://registry"},
		{"no file", []string{"AGENT_CONFIG_FILE=/proc/none"}, "AGENT_CONFIG_FILE", "/proc/none"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newProgram(t, self(t), settings(t, base, c.environment...))
			if code := p.run(t); code != exitConfiguration {
				t.Fatalf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
			}
			var line struct{ Level, Event, Error, Key, Value string }
			if err := json.Unmarshal(p.stderr.Bytes(), &line); err != nil || bytes.Count(p.stderr.Bytes(), []byte("\n")) != 1 {
				t.Fatalf("%v in %q", err, p.stderr.String())
			}
			if line.Level != "error" || line.Event != "invalid_config" || line.Key != c.key || line.Value != c.value || !strings.Contains(line.Error, c.key) {
				t.Errorf("%+v", line)
			}
		})
	}
}

// TestExit75: each of the three ports, and no provider.
func TestExit75(t *testing.T) {
	base := freePorts(t, testPorts)
	for i, name := range []string{"WEB_PORT", "NMOS_PORT", "NMOS_PORT+1"} {
		port := base + i
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			p := newProgram(t, self(t), settings(t, base))
			if code := p.run(t); code != exitUnavailable || !strings.Contains(p.stderr.String(), `"event":"fatal"`) || !strings.Contains(p.stderr.String(), strconv.Itoa(port)) {
				t.Errorf("exit code %d, %s", code, p.stderr.String())
			}
		})
	}
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) > 0 {
		t.Log("there are RDMA devices: no provider is missing here")
		return
	}
	p := newProgram(t, self(t), settings(t, base, "DEFAULT_PROVIDER=verbs"))
	if code := p.run(t); code != exitUnavailable || !strings.Contains(p.stdout.String(), `"event":"no_fabric_provider"`) {
		t.Errorf("no provider: exit code %d, %s%s", code, p.stdout.String(), p.stderr.String())
	}
}

// TestExit143: either signal, while it runs and while it starts, also when a
// second one cuts the end off.
func TestExit143(t *testing.T) {
	base := freePorts(t, testPorts)
	running := func(t *testing.T, p *program) {
		t.Helper()
		deadline := time.Now().Add(20 * time.Second)
		for {
			resp, err := http.Get("http://127.0.0.1:" + strconv.Itoa(base) + "/livez")
			if err == nil {
				resp.Body.Close()
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("it does not run: %v\n%s", err, p.stderr.String())
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	for _, c := range []struct {
		name    string
		more    []string
		ready   bool
		signals []syscall.Signal
	}{
		{"SIGTERM", nil, true, []syscall.Signal{syscall.SIGTERM}},
		{"SIGINT", nil, true, []syscall.Signal{syscall.SIGINT}},
		{"twice", nil, true, []syscall.Signal{syscall.SIGTERM, syscall.SIGTERM}},
		{"SIGINT twice", nil, true, []syscall.Signal{syscall.SIGINT, syscall.SIGINT}},
		{"while it looks for a provider", []string{"DEFAULT_PROVIDER=verbs"}, false, []syscall.Signal{syscall.SIGTERM}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if devices, _ := filepath.Glob("/sys/class/infiniband/*"); !c.ready && len(devices) > 0 {
				t.Log("there are RDMA devices: the start does not wait here")
				return
			}
			p := newProgram(t, self(t), settings(t, base, c.more...))
			said := &watchedOutput{to: &p.stdout}
			p.command.Stdout = said
			if err := p.command.Start(); err != nil {
				t.Fatal(err)
			}
			if c.ready {
				running(t, p)
			} else {
				waitFor(t, said, `"event":"fabric_provider_wait"`)
			}
			for _, s := range c.signals {
				if err := p.command.Process.Signal(s); err != nil && err != os.ErrProcessDone {
					t.Fatal(err)
				}
			}
			if code := p.wait(t); code != exitSignal {
				t.Errorf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
			}
		})
	}
}

// watchedOutput lets a test see what a program has said while it runs.
type watchedOutput struct {
	mu sync.Mutex
	to *bytes.Buffer
}

func (w *watchedOutput) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.to.Write(p)
}

func (w *watchedOutput) has(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Contains(w.to.Bytes(), []byte(text))
}

func waitFor(t *testing.T, out *watchedOutput, text string) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !out.has(text); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never said %s", text)
		}
	}
}

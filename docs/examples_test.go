package docs

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// The ids of the examples.
const (
	exampleDomain = "1b4f5c8e-3c4e-4a6e-9f10-2f6a8d7c9b01"
	exampleFlow   = "7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c11"
)

// TestExamples runs every curl of the documents as it is written, against two
// agents in this process, and holds the statuses of the endpoints against those
// in their table.
func TestExamples(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v; make deps installs it", err)
		}
	}
	a, b := examplePair(t)
	home := t.TempDir()
	// The status goes to stderr, so that what jq reads is the body alone.
	curlrc := "write-out = \"%{stderr}status %{http_code}\\n\"\nnoproxy = \"*\"\n"
	if err := os.WriteFile(filepath.Join(home, ".curlrc"), []byte(curlrc), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(t *testing.T, command string) (statuses []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		// Reading the events is the one example that takes its time.
		command = strings.ReplaceAll(command, "--max-time 20", "--max-time 1")
		command = strings.ReplaceAll(command, "http://node-b:8095", b)
		cmd := exec.CommandContext(ctx, "bash", "-o", "pipefail", "-c", command)
		cmd.Dir = home
		cmd.Env = append(os.Environ(), "CURL_HOME="+home, "A="+a, "B="+b, "D="+exampleDomain, "F="+exampleFlow)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil && !strings.Contains(command, "--max-time") {
			t.Errorf("%s\n%v\n%s%s", command, err, out, stderr.String())
		}
		for _, m := range regexp.MustCompile(`status (\d+)`).FindAllStringSubmatch(stderr.String(), -1) {
			statuses = append(statuses, m[1])
		}
		return statuses
	}
	api := read(t, "docs/api.md")
	for _, row := range rows(api) {
		endpoint := firstCode(row[0])
		if method, _, ok := strings.Cut(endpoint, " /"); !ok || strings.ToUpper(method) != method {
			continue
		}
		t.Run(endpoint, func(t *testing.T) {
			allowed := strings.Split(row[1], ", ")
			for _, command := range examples(section(t, api, "### "+endpoint)) {
				statuses := run(t, command)
				if len(statuses) == 0 {
					t.Errorf("%s: no answer", command)
				}
				for _, s := range statuses {
					if !slices.Contains(allowed, s) {
						t.Errorf("%s: status %s, documented are %v", command, s, allowed)
					}
				}
			}
		})
	}
	for _, doc := range []string{"docs/troubleshooting.md", "docs/metrics.md"} {
		t.Run(doc, func(t *testing.T) {
			commands := examples(read(t, doc))
			if len(commands) == 0 {
				t.Error("no examples found")
			}
			for _, command := range commands {
				run(t, command)
			}
		})
	}
}

// TestEveryOperationHasAnExample: the section of each operation of the OpenAPI
// document has an example that calls it, and not another one only.
func TestEveryOperationHasAnExample(t *testing.T) {
	doc, _ := loadOpenAPI(t)
	api := read(t, "docs/api.md")
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			calls := 0
			for _, command := range examples(section(t, api, "### "+method+" "+path)) {
				if callsOperation(command, method, path) {
					calls++
				}
			}
			if calls == 0 {
				t.Errorf("no example of %s %s calls it", method, path)
			}
		}
	}
}

var (
	methodOption = regexp.MustCompile(`-X ([A-Z]+)`)
	pathSegment  = regexp.MustCompile(`\\\{[a-z_]+\\\}`)
)

// callsOperation says whether a curl command asks for a method on a path.
func callsOperation(command, method, path string) bool {
	asked := "GET"
	if m := methodOption.FindStringSubmatch(command); m != nil {
		asked = m[1]
	}
	pattern := `\$[AB]` + pathSegment.ReplaceAllString(regexp.QuoteMeta(path), `[^/ ]+`) + `( |$)`
	return asked == method && regexp.MustCompile(pattern).MatchString(command)
}

func TestCallsOperation(t *testing.T) {
	for _, c := range []struct {
		command, method, path string
		want                  bool
	}{
		{"curl -s $B/api/v1/config | jq .", "GET", "/api/v1/config", true},
		{"curl -s $B/api/v1/config/env", "GET", "/api/v1/config", false},
		{"curl -s -X DELETE $B/api/v1/mirrors/$D", "DELETE", "/api/v1/mirrors/{domain_id}", true},
		{"curl -s $B/api/v1/mirrors/$D", "DELETE", "/api/v1/mirrors/{domain_id}", false},
		{"curl -s -X POST $B/api/v1/mirrors/$D/$F/rebuild", "DELETE", "/api/v1/mirrors/{domain_id}", false},
	} {
		if got := callsOperation(c.command, c.method, c.path); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// examples are the curl commands of a text.
func examples(text string) (commands []string) {
	for _, m := range regexp.MustCompile(`(?m)^ {4,}(curl .*)$`).FindAllStringSubmatch(text, -1) {
		commands = append(commands, m[1])
	}
	return commands
}

// examplePair starts two agents without NMOS, the first with the flow of the
// examples, and waits until the second has made its mirror.
func examplePair(t *testing.T) (a, b string) {
	dir, err := os.MkdirTemp("/dev/shm", "mxl-docs-")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	rootA, rootB := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for _, d := range []string{filepath.Join(rootA, "studio"), rootB} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(rootA, "studio", "domain_def.json"), []byte(`{"id":"`+exampleDomain+`","label":"studio"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	domain, err := mxl.OpenDomain(filepath.Join(rootA, "studio"))
	if err != nil {
		t.Fatal(err)
	}
	def := fmt.Sprintf(`{"id":%q,"label":"example","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["example:Data"]},
		"parents":[],"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":50,"denominator":1}}`, exampleFlow)
	writer, _, err := domain.CreateDiscreteWriter([]byte(def), mxl.FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = writer.Close() })

	portA, portB := freePort(t), freePort(t)
	a, b = "http://127.0.0.1:"+portA, "http://127.0.0.1:"+portB
	startAgent(t, "HOST_ID=node-a", "WEB_PORT="+portA, "MXL_ROOT="+rootA, "STATE_DIR="+filepath.Join(dir, "state-a"))
	startAgent(t, "HOST_ID=node-b", "WEB_PORT="+portB, "MXL_ROOT="+rootB, "STATE_DIR="+filepath.Join(dir, "state-b"), "TMPFS_RESERVE_MB=0",
		"MIRROR_ADMIN_REBUILD=true", `PEERS=[{"host_id":"node-a","control_url":"`+a+`/api/v1"}]`)
	mirror := filepath.Join(rootB, "mirror-"+exampleDomain, exampleFlow+mxl.FlowSuffix, "data")
	deadline := time.Now().Add(20 * time.Second)
	for {
		if _, err := os.Stat(mirror); err == nil {
			return a, b
		}
		if time.Now().After(deadline) {
			t.Fatalf("no mirror at %s", mirror)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func startAgent(t *testing.T, environment ...string) {
	store, err := config.Load(config.Machine{Environ: append(environment, "NMOS_ENABLE=false", "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=127.0.0.1")})
	if err != nil {
		t.Fatal(err)
	}
	running, err := agent.New(store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := running.Start(ctx); err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- running.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// freePort is a port nobody listens on now.
func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

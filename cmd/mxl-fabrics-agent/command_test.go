package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

const (
	testDomain = "1b4f5c8e-3c4e-4a6e-9f10-2f6a8d7c9b01"
	testFlow   = "7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c11"
)

// runningAgent starts an agent with one empty domain and gives its address.
func runningAgent(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "mxl", "studio"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mxl", "studio", "domain_def.json"), []byte(`{"id":"`+testDomain+`"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	store, err := config.Load(config.Machine{Environ: []string{"HOST_ID=node-a", "WEB_PORT=" + port, "MXL_ROOT=" + filepath.Join(dir, "mxl"),
		"STATE_DIR=" + filepath.Join(dir, "state"), "NMOS_ENABLE=false", "DEFAULT_PROVIDER=tcp", "FABRIC_INTERFACE=127.0.0.1"}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := agent.New(store, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := a.Start(ctx); err != nil {
		cancel()
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	at := "http://127.0.0.1:" + port
	deadline := time.Now().Add(10 * time.Second)
	for {
		resp, err := http.Get(at + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return at
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent does not get ready")
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func execute(t *testing.T, environ []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, err strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	code = runCommand(ctx, args, environ, &out, &err)
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	for _, c := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"start"}, exitUsage, "", `unknown command "start"`},
		{[]string{"explain", "one"}, exitUsage, "", "takes 2 arguments, not 1"},
		{[]string{"status", "--nothing"}, exitUsage, "", "nothing"},
		{[]string{"status", "--url", "node-b:8095"}, exitUsage, "", "must be like http://host:8095"},
		{[]string{"events", "--count", "-1"}, exitUsage, "", "negative"},
		{[]string{"help"}, exitOK, "Exit codes", ""},
		{[]string{"doctor", "-h"}, exitOK, "Exit codes", ""},
		{[]string{"version"}, exitOK, agent.Version, ""},
	} {
		code, stdout, stderr := execute(t, nil, c.args...)
		if code != c.code || !strings.Contains(stdout, c.stdout) || !strings.Contains(stderr, c.stderr) {
			t.Errorf("%v: %d, %q, %q", c.args, code, stdout, stderr)
		}
		if (stderr != "") != (c.code != exitOK) {
			t.Errorf("%v: stderr %q", c.args, stderr)
		}
	}
}

func TestUnreachableAgent(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }))
	defer elsewhere.Close()
	for _, args := range [][]string{
		{"explain", testDomain, testFlow}, {"status", "--json"}, {"events"},
		{"status", "--url", elsewhere.URL},
	} {
		code, _, stderr := execute(t, []string{"WEB_PORT=1"}, args...)
		if code != exitUnreachable || stderr == "" {
			t.Errorf("%v: %d, %q", args, code, stderr)
		}
	}
}

func TestCommandsOfARunningAgent(t *testing.T) {
	at := runningAgent(t)
	port := at[strings.LastIndex(at, ":")+1:]
	environ := []string{"WEB_PORT=" + port}

	t.Run("explain", func(t *testing.T) {
		code, stdout, _ := execute(t, environ, "explain", testDomain, testFlow)
		if code != exitBroken || !strings.Contains(stdout, "node-a is the source") || !strings.Contains(stdout, "BROKEN  origin") || !strings.Contains(stdout, "> Check the flow id") {
			t.Errorf("%d\n%s", code, stdout)
		}
		code, stdout, _ = execute(t, nil, "explain", testFlow, testFlow, "--json", "--url", at+"/api/v1/")
		var e explained
		if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != exitBroken || e.Role != "destination" || len(e.Steps) == 0 {
			t.Errorf("%d, %v\n%s", code, err, stdout)
		}
		if code, _, stderr := execute(t, environ, "explain", testDomain, "camera"); code != exitUsage || !strings.Contains(stderr, "not a UUID") {
			t.Errorf("%d, %s", code, stderr)
		}
	})
	t.Run("status", func(t *testing.T) {
		code, stdout, _ := execute(t, environ, "status", "--json")
		var doc statusDocument
		if err := json.Unmarshal([]byte(stdout), &doc); err != nil {
			t.Fatal(err)
		}
		if code != exitOf(doc.Findings) || doc.OK != (code == exitOK) || doc.OK != (len(doc.Findings) == 0) || !strings.Contains(string(doc.Status), "node-a") {
			t.Errorf("%d\n%s", code, stdout)
		}
		if _, stdout, _ := execute(t, environ, "status"); !strings.Contains(stdout, "node-a is ready") || !strings.Contains(stdout, "0 of 0 reachable") {
			t.Errorf("%s", stdout)
		}
	})
	t.Run("events", func(t *testing.T) {
		code, stdout, stderr := execute(t, environ, "events", "--json", "--count", "1")
		var e event
		if err := json.Unmarshal([]byte(stdout), &e); err != nil || code != exitOK || e.Event != "inventory" || string(e.Data) != "1" {
			t.Errorf("%d, %v, %s, %s", code, err, stdout, stderr)
		}
		if code, stdout, _ := execute(t, environ, "events", "--for", "50ms"); code != exitOK || !strings.Contains(stdout, "inventory") {
			t.Errorf("%d, %s", code, stdout)
		}
	})
	t.Run("nothing is kept of questions for flows that are not there", func(t *testing.T) {
		const info = `{\"addressFormat\":2,\"fabricAddress\":\"AgAACX8AAAEAAAAAAAAAAA==\",\"id\":\"1\",\"provider\":\"tcp\",\"regions\":[{\"addr\":\"0\",\"len\":\"12288\",\"rkey\":\"1\"}]}`
		for range 20 {
			resp, err := http.Post(at+"/api/v1/replications", "application/json", strings.NewReader(`{"domain_id":"`+testDomain+`","flow_id":"`+uuid.NewString()+`","dest_host_id":"node-z","target_info":"`+info+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), `"state":"error"`) || !strings.Contains(string(body), "flow not found") {
				t.Fatalf("%s %s, %v", resp.Status, body, err)
			}
		}
		resp, err := http.Get(at + "/api/v1/replications")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if rows, err := io.ReadAll(resp.Body); err != nil || string(rows) != "[]" {
			t.Errorf("replications %s, %v", rows, err)
		}
	})
	t.Run("events, and all streams are taken", func(t *testing.T) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		const each = 128 // of one address (docs/api.md)
		for i := range each {
			resp, err := client.Get(at + "/api/v1/events")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("stream %d: %s", i, resp.Status)
			}
		}
		code, _, stderr := execute(t, environ, "events", "--count", "1")
		if code != exitUnreachable || !strings.Contains(stderr, "HTTP 429: this address has 128 event streams") {
			t.Errorf("%d, %s", code, stderr)
		}
		// Whoever comes from elsewhere is served.
		elsewhere := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 9)}}
		client.Transport = &http.Transport{DisableKeepAlives: true, DialContext: elsewhere.DialContext}
		resp, err := client.Get(at + "/api/v1/events")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			t.Errorf("another address: %s", resp.Status)
		}
	})
	t.Run("doctor", func(t *testing.T) {
		root := t.TempDir()
		code, stdout, _ := execute(t, append(environ, "MXL_ROOT="+root, "STATE_DIR="+root, "HOST_ID=node-a", "NMOS_ENABLE=false", "DEFAULT_PROVIDER=tcp"), "doctor", "--json")
		var report struct {
			OK       bool                                  `json:"ok"`
			Findings []struct{ Check, State, What string } `json:"findings"`
		}
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || report.OK != (code == exitOK) {
			t.Fatalf("%d, %v\n%s", code, err, stdout)
		}
		held := slices.ContainsFunc(report.Findings, func(f struct{ Check, State, What string }) bool {
			return f.Check == "port_web" && f.State == "ok" && strings.Contains(f.What, "held by an agent, host id node-a")
		})
		if !held {
			t.Errorf("the running agent is not recognised: %+v", report.Findings)
		}
		if code, stdout, _ := execute(t, []string{"SCAN_INTERVAL_MS=1"}, "doctor"); code != exitBroken || !strings.Contains(stdout, "SCAN_INTERVAL_MS") {
			t.Errorf("%d\n%s", code, stdout)
		}
	})
}

func TestExitOf(t *testing.T) {
	for _, c := range []struct {
		list []finding
		want int
	}{
		{nil, exitOK},
		{[]finding{{warn, "a"}, {warn, "b"}}, exitWarning},
		{[]finding{{warn, "a"}, {fail, "b"}}, exitBroken},
	} {
		if got := exitOf(c.list); got != c.want {
			t.Errorf("%v: %d, want %d", c.list, got, c.want)
		}
	}
}

func TestStatusFindings(t *testing.T) {
	var fine overview
	fine.Ready.Status, fine.Status.TAIOffset, fine.Status.Tmpfs = "ready", 37, true
	if got := fine.findings(); len(got) != 0 {
		t.Errorf("%v", got)
	}
	var o overview
	document := `{"Ready":{"status":"not ready","reason":"no pass"},"Status":{"nmos_error":"no registry"},
		"Peers":[{"host_id":"a","up":false,"error":"connect","link_up":false,"link_error":"no carrier"},{"host_id":"c","up":true,"link_up":true,"warning":"it answers as \"z\""}],
		"Replications":[{"role":"source","flow_id":"f1","peer":"b","state":"error","last_error":"refused"},{"role":"destination","flow_id":"f2","peer":"a","state":"active","fallback":true}],
		"Mirrors":[{"domain_id":"d","on_disk":true,"readers_known":false,"readers_error":"pid 1","flows":[{"flow_id":"f3","state":"replicating","health":{"state":"stale","reason":"peer_down"}},{"flow_id":"f4","state":"insufficient_space"}]}],
		"Demand":{"receivers":[{"label":"r","mxl_domain_id":"x","mxl_flow_id":"y","state":"unresolved"}]}}`
	if err := json.Unmarshal([]byte(document), &o); err != nil {
		t.Fatal(err)
	}
	lines := []string{}
	for _, f := range o.findings() {
		lines = append(lines, f.State+" "+f.What)
	}
	if !slices.IsSortedFunc(o.findings(), func(a, b finding) int { return strings.Compare(a.State, b.State) }) {
		t.Errorf("faults do not come first:\n%s", strings.Join(lines, "\n"))
	}
	all := strings.Join(lines, "\n")
	for _, want := range []string{"fail not ready: no pass", "fail NMOS: no registry", "warn the kernel's TAI offset is 0", "warn the MXL root is not on a tmpfs", "fail peer a is down: connect", "fail the link to a is down: no carrier",
		`warn peer c: it answers as "z"`, "fail flow f1, to b: error: refused", "warn flow f2, from a: tcp stands in", "warn mirror of d: its readers are not known: pid 1",
		"fail mirror flow f3 of d is stale: peer_down", "fail mirror flow f4 of d: insufficient_space", "fail receiver r wants x/y: unresolved"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
}

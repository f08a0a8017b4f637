package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A node's file is where an agent starts from, and wins again when it is changed;
// what the API saved stays as long as it is not.
func TestNodeFileIsTakenOver(t *testing.T) {
	chart, _, err := render(t, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]objects{"manifest": decode(t, "manifest", read(t, "deploy/mxl-fabrics-agent.yaml")), "chart": chart} {
		t.Run(name, func(t *testing.T) {
			c := container(t, o.daemonSets[0].Spec.Template.Spec.InitContainers, "configuration")
			dir := t.TempDir()
			state, nodes := filepath.Join(dir, "config"), filepath.Join(dir, "nodes")
			for _, d := range []string{state, nodes} {
				if err := os.Mkdir(d, 0o750); err != nil {
					t.Fatal(err)
				}
			}
			script := strings.NewReplacer("/config/", state+"/", "/etc/mxl-fabrics-agent/", nodes+"/").Replace(c.Command[2])
			start := func(host, want string) {
				t.Helper()
				command := exec.CommandContext(t.Context(), c.Command[0], c.Command[1], script)
				command.Env = append(os.Environ(), "HOST_ID="+host)
				if out, err := command.CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				got, err := os.ReadFile(filepath.Join(state, "agent.json"))
				if err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("starts from %q, %v; want %q", got, err, want)
				}
			}
			write := func(path, text string) {
				t.Helper()
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			node, saved := filepath.Join(nodes, "node-a.json"), filepath.Join(state, "agent.json")
			start("node-a", "{}") // no file of this node
			write(node, `{"a":1}`)
			start("node-a", `{"a":1}`)
			write(saved, `{"a":1,"api":1}`)
			start("node-a", `{"a":1,"api":1}`)
			write(node, `{"a":2}`)
			start("node-a", `{"a":2}`)
			start("node-a", `{"a":2}`)
			if err := os.Remove(saved); err != nil {
				t.Fatal(err)
			}
			start("node-a", `{"a":2}`)
		})
	}
}

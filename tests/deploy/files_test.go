package deploy

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

const root = "../.."

func read(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// documents splits a YAML stream.
func documents(text []byte) [][]byte {
	var list [][]byte
	for part := range bytes.SplitSeq(append([]byte("\n"), text...), []byte("\n---")) {
		if len(bytes.TrimSpace(part)) > 0 {
			list = append(list, part)
		}
	}
	return list
}

// load starts a configuration as the agent does, from an environment and the
// file that AGENT_CONFIG_FILE is to name (none when nil).
func load(t testing.TB, environment map[string]string, file []byte) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	environ := []string{"STATE_DIR=" + dir}
	for k, v := range environment {
		switch k {
		case "STATE_DIR":
		case "AGENT_CONFIG_FILE":
			path := filepath.Join(dir, "agent.json")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			environ = append(environ, k+"="+path)
		default:
			environ = append(environ, k+"="+v)
		}
	}
	s, err := config.Load(config.Machine{
		Environ:  environ,
		Hostname: func() (string, error) { return "node-a", nil },
		Addrs:    func() ([]net.Addr, error) { return nil, nil },
	})
	if err != nil {
		return nil, err
	}
	return s.Config(), nil
}

// What is shipped names no machine of ours and no registry of a private network.
func TestNothingPrivateIsShipped(t *testing.T) {
	private := regexp.MustCompile(`(^|[^.\w])/(work|root|home)/|\.(internal|lan|corp)\b|\b(10|172\.1[6-9]|192\.168)\.\d+\.\d+\.\d+:\d+`)
	for _, dir := range []string{"deploy", "docker"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i, line := range strings.Split(string(text), "\n") {
				if found := private.FindString(line); found != "" {
					t.Errorf("%s:%d: %q", path, i+1, found)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func readHere(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

package mirrors

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A directory of another agent is where the mirror of an offered flow would go: the
// flow is in conflict, the log says what is in the way once, and nothing there is
// touched. The same marker in a directory of another name is in nobody's way.
func TestForeignMirrorInTheWay(t *testing.T) {
	t.Parallel()
	const free = "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e32"
	marker := func(id string) []byte {
		return fmt.Appendf(nil, `{"id":%q,"label":"","description":"","tags":{},"x-mxl-fabrics-agent":{"mirror":true,"source_host_id":"host-x","owner_host_id":"host-z"}}`, id)
	}
	f, other := flowOf("video", 1), flowOf("other", 2)
	other.DomainID, other.Domain = free, "stage"
	var directory string
	s := start(t, nil, func(s *site) {
		directory = s.B.MirrorDomain(domainID)
		for path, id := range map[string]string{directory: domainID, filepath.Join(s.B.Root, "mirror-copy"): free} {
			s.must(os.MkdirAll(path, 0o755))
			s.must(os.WriteFile(filepath.Join(path, "domain_def.json"), marker(id), 0o644))
		}
	})
	s.write(f)
	s.write(other)
	line := s.logged("mirror_domain_id_mismatch", "path", directory)
	if line["existing"] != "host-z" || line["wanted"] != "host-b" || line["level"] != "error" {
		t.Errorf("%v", line)
	}
	s.flowState(f, "conflict")
	s.must(s.Mirrored(s.ctx, other, 20*time.Second))
	s.B.Stop(12 * time.Second)
	if n := len(s.B.Logged("mirror_domain_id_mismatch")); n != 1 {
		t.Errorf("logged %d times", n)
	}
	entries, err := os.ReadDir(directory)
	s.must(err)
	if text, err := os.ReadFile(filepath.Join(directory, "domain_def.json")); err != nil || string(text) != string(marker(domainID)) || len(entries) != 1 {
		t.Errorf("%v, %s, %v", entries, text, err)
	}
}

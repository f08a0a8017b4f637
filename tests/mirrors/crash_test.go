package mirrors

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// An agent that is killed while it makes mirrors leaves half-made flows; the next
// one knows them for its own, clears them, and makes the mirrors.
func TestKilledWhileItMakesMirrors(t *testing.T) {
	t.Parallel()
	s := start(t, nil, nil)
	var list []mesh.Flow
	for n := range 4 {
		// 24 MB each: making one takes a few milliseconds.
		f := flowOf(fmt.Sprintf("flow-%d", n), n, "--format", "v210", "--width", "1280", "--height", "720", "--rate", "50", "--history-ms", "200")
		list = append(list, f)
		s.write(f)
	}
	for _, f := range list {
		s.must(s.Mirrored(s.ctx, f, 20*time.Second))
	}
	domain := s.B.MirrorDomain(domainID)
	halfMade := 0
	const rounds = 6
	for round := range rounds {
		s.B.Stop(12 * time.Second)
		s.must(os.RemoveAll(domain))
		s.must(s.B.Launch(""))
		// The first sign of a flow, finished or not, and then a little later each
		// round.
		look := time.NewTicker(time.Millisecond)
		for began := time.Now(); len(entries(domain, "")) < 2; <-look.C {
			if !s.B.Running() || time.Since(began) > 20*time.Second {
				t.Fatalf("no mirror is made, see %s", s.B.Log)
			}
		}
		look.Stop()
		<-time.After(time.Duration(round) * 4 * time.Millisecond)
		s.B.Signal(syscall.SIGKILL)
		<-s.B.Done()
		halfMade += len(entries(domain, "."))
		s.must(s.B.Start(s.ctx))
		for _, f := range list {
			s.must(s.Mirrored(s.ctx, f, 20*time.Second))
		}
		s.nothingHalfMade(list[0])
	}
	t.Logf("%d half-made flows were left in %d kills", halfMade, rounds)
	s.must(s.Connect(s.ctx, 0, list[0]))
	s.flows(list[0], 10*time.Second)
}

// entries lists what in a directory begins so.
func entries(directory, prefix string) []string {
	var found []string
	list, _ := os.ReadDir(directory)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), prefix) {
			found = append(found, e.Name())
		}
	}
	return found
}

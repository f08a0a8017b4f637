package mirrors

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

// Many orders at once, of all kinds and for the same mirrors, while grains come:
// each gets an answer of its kind, and afterwards everything flows again.
func TestOrdersAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, nil, func(s *site) { s.B.Set("MIRROR_ADMIN_REBUILD", "true") })
	list := []mesh.Flow{flowOf("one", 1), flowOf("two", 2)}
	for i, f := range list {
		s.write(f)
		s.must(s.Connect(s.ctx, i, f))
	}
	for _, f := range list {
		s.flows(f, 20*time.Second)
	}
	type answer struct {
		method string
		status int
	}
	var mu sync.Mutex
	counts := map[answer]int{}
	var clients sync.WaitGroup
	for n := range 6 {
		clients.Go(func() {
			method, path := http.MethodPost, rebuildPath(domainID, list[n%2].ID)
			if n < 2 {
				method, path = http.MethodDelete, "/api/v1/mirrors/"+domainID
			}
			for range 6 {
				status, body, err := s.B.Do(s.ctx, method, path, nil)
				if err != nil {
					t.Errorf("%s: %v", method, err)
					return
				}
				allowed := []int{http.StatusOK, http.StatusNotFound, http.StatusInternalServerError}
				if method == http.MethodDelete {
					allowed[2] = http.StatusConflict
				}
				if status != allowed[0] && status != allowed[1] && status != allowed[2] {
					t.Errorf("%s: %d %s", method, status, body)
				}
				mu.Lock()
				counts[answer{method, status}]++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	t.Log(counts)
	for _, f := range list {
		s.flows(f, 15*time.Second)
		s.nothingHalfMade(f)
	}
	if counts[answer{http.MethodPost, http.StatusOK}] == 0 {
		t.Error("no rebuild went through")
	}
}

package peers

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// largeInventory takes about n bytes.
func largeInventory(n int) *Inventory {
	inv := &Inventory{Revision: 1}
	for i := 0; inv.size() < n; i++ {
		d := domainOf(fmt.Sprint("d", i))
		for f := range 20 {
			d.Flows = append(d.Flows, plainFlowOf(20*i+f, maxDefinition-100))
		}
		inv.Domains = append(inv.Domains, d)
	}
	return inv
}

// A registry that invents agents gets the first of them polled; those of PEERS are
// polled whatever it says.
func TestListedIsBounded(t *testing.T) {
	var many []Discovered
	for i := range 3 * maxDiscovered {
		many = append(many, Discovered{HostID: fmt.Sprintf("h%05d", (i*7919)%(3*maxDiscovered)), ControlURL: "u"})
	}
	got := listed("self", []Static{{HostID: "z"}}, many)
	if len(got) != maxDiscovered+1 {
		t.Errorf("%d peers", len(got))
	}
	for _, id := range []string{"z", "h00000", fmt.Sprintf("h%05d", maxDiscovered-1)} {
		if _, ok := got[id]; !ok {
			t.Errorf("%s is not polled", id)
		}
	}
	if many[1].HostID == "h00001" {
		t.Error("the caller's list was sorted")
	}
}

// Peers with large inventories fill the room for those; the ones that are too many
// are down and say why, and ordinary ones are not touched.
func TestHeldInventoriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		const large = 40 << 20
		inv := largeInventory(large)
		var static []Static
		for i := range 10 {
			id := fmt.Sprint("big", i)
			static = append(static, Static{HostID: id, ControlURL: "u:" + id})
			f.with("u:"+id, func(h *fakeHost) { h.inv = inv })
		}
		static = append(static, Static{HostID: "small", ControlURL: "u:small"})
		table, _ := running(t, f, Config{Static: static})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		up, refused := 0, 0
		for _, p := range table.Snapshot() {
			switch {
			case p.HostID == "small" && !p.Up:
				t.Errorf("the ordinary peer is down: %s", p.Error)
			case p.HostID == "small":
			case p.Up:
				up++
			case p.Error == "too large" && p.Inventory == nil:
				refused++
			}
		}
		if want := maxHeld / inv.size(); up != want || refused != 10-want {
			t.Errorf("%d up, %d refused, want %d and %d", up, refused, want, 10-want)
		}
		// One that leaves its large inventory makes room.
		f.with("u:big0", func(h *fakeHost) { h.inv = &Inventory{Revision: 2} })
		f.with("u:big1", func(h *fakeHost) { h.inv = &Inventory{Revision: 2} })
		time.Sleep(30 * time.Second)
		synctest.Wait()
		refused = 0
		for _, p := range table.Snapshot() {
			if p.Error == "too large" {
				refused++
			}
		}
		if refused > 10-maxHeld/inv.size()-1 {
			t.Errorf("%d are still refused", refused)
		}
	})
}

// A hundred hosts that send without end cost what the large answers together may,
// and a peer that answers as peers do is read meanwhile.
func TestEndlessAnswersAreBounded(t *testing.T) {
	const hosts = 100
	var reading sync.WaitGroup
	gate := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/good") {
			_, _ = io.WriteString(w, `{"domains":[],"host_id":"b","revision":1}`)
			return
		}
		piece := []byte(strings.Repeat(" ", 1<<20))
		for sent := 0; ; sent += len(piece) {
			if sent == 6<<20 {
				<-gate // all of them hold what they have
			}
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	c := NewClient()
	defer c.Close()
	var before, during runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	errs := make(chan error, hosts)
	for range hosts {
		reading.Go(func() {
			_, err := c.Inventory(t.Context(), server.URL)
			errs <- err
		})
	}
	var failed error
	answered := 0
	for start := time.Now(); time.Since(start) < time.Second || answered == 0 && time.Since(start) < 20*time.Second; {
		runtime.GC()
		runtime.ReadMemStats(&during)
		if _, err := c.Inventory(t.Context(), server.URL+"/good"); err != nil {
			failed = err
		} else {
			answered++
		}
		// Buffers grow by doubling; every host may have 1 MiB, and the server has its own.
		if grown := int64(during.HeapAlloc) - int64(before.HeapAlloc); grown > 3*maxArriving+hosts*4*modest {
			t.Fatalf("%d MiB for answers that do not end", grown>>20)
		}
	}
	// A busy machine does not answer every time in time, but it does answer.
	if answered == 0 {
		t.Errorf("an ordinary peer meanwhile: %v", failed)
	}
	close(gate)
	reading.Wait()
	close(errs)
	for err := range errs {
		// A busy machine does not connect a hundred in time.
		if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrReceive) && !errors.Is(err, ErrConnect) {
			t.Errorf("an answer without end: %v", err)
		}
	}
	if n := c.arriving.Load(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// A peer that answers each of many requests for flows with a body that does not end
// takes nothing from what the large inventories of others may have while they are read.
// It had all of it.
func TestEndlessAnswersOfOnePeer(t *testing.T) {
	const flows = 40
	inventory := `{"domains":[],"host_id":"b","revision":1` + strings.Repeat(" ", 2*modest) + `}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, inventory)
			return
		}
		piece := []byte(strings.Repeat(" ", modest))
		for range 6 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	c := NewClient()
	defer c.Close()
	var asking sync.WaitGroup
	errs := make(chan error, flows)
	for range flows {
		asking.Go(func() {
			_, err := c.Replicate(t.Context(), server.URL, ReplicationRequest{FlowID: flowA})
			errs <- err
		})
	}
	most := int64(0)
	for range flows {
		var err error
		for answered := false; !answered; {
			select {
			case err = <-errs:
				answered = true
			case <-time.After(time.Millisecond):
			}
			most = max(most, c.arriving.Load())
		}
		// A busy machine does not connect or read forty in time.
		if !errors.Is(err, ErrTooLarge) && !errors.Is(err, ErrReceive) && !errors.Is(err, ErrConnect) {
			t.Errorf("an answer without end: %v", err)
		}
	}
	asking.Wait()
	if most != 0 {
		t.Errorf("%d bytes of one peer's answers counted as large", most)
	}
	if _, err := c.Inventory(t.Context(), server.URL); err != nil {
		t.Errorf("a large inventory: %v", err)
	}
}

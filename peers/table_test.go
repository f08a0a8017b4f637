package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a plant of peers under one control URL each.
type fake struct {
	mu     sync.Mutex
	hosts  map[string]*fakeHost
	events map[string]chan Event
}

type fakeHost struct {
	boot     string
	hostID   string // of /info
	inv      *Inventory
	err      error
	polls    []time.Time
	streams  int
	noStream bool
}

func newFake() *fake {
	return &fake{hosts: make(map[string]*fakeHost), events: make(map[string]chan Event)}
}

func (f *fake) host(url string) *fakeHost {
	h, ok := f.hosts[url]
	if !ok {
		h = &fakeHost{boot: "boot-" + url, inv: &Inventory{Revision: 1}}
		f.hosts[url] = h
		f.events[url] = make(chan Event)
	}
	return h
}

func (f *fake) with(url string, change func(*fakeHost)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.host(url))
}

func (f *fake) Info(ctx context.Context, url string) (Info, error) {
	if url == "silent" {
		select {
		case <-time.After(callTimeout):
		case <-ctx.Done():
		}
		return Info{}, ErrReceive
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.host(url)
	h.polls = append(h.polls, time.Now())
	return Info{BootID: h.boot, HostID: h.hostID}, h.err
}

func (f *fake) Inventory(_ context.Context, url string) (*Inventory, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.host(url).inv, f.host(url).err
}

func (f *fake) Follow(ctx context.Context, url string, receive func(Event)) error {
	f.mu.Lock()
	h := f.host(url)
	h.streams++
	refuse, events := h.noStream, f.events[url]
	f.mu.Unlock()
	if refuse {
		return errNoStream
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-events:
			if !ok {
				return errors.New("cut")
			}
			receive(e)
		}
	}
}

type log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *log) count(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), `"msg":"`+event+`"`)
}

// running runs a table inside a bubble and ends it with the test.
func running(t *testing.T, f *fake, cfg Config) (*Table, *log) {
	lines := new(log)
	cfg.HostID, cfg.Client, cfg.Interval = "self", f, 2*time.Second
	cfg.Log = slog.New(slog.NewJSONHandler(lines, &slog.HandlerOptions{Level: slog.LevelDebug}))
	table := NewTable(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		table.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return table, lines
}

// TestSilentPeersDelayNobody: two hundred peers that say nothing until a call is given
// up, and one that answers; it is polled as if it were alone, and so are its events
// followed.
func TestSilentPeersDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		static := []Static{{HostID: "well", ControlURL: "u:well"}}
		for i := range 200 {
			static = append(static, Static{HostID: fmt.Sprint("silent", i), ControlURL: "silent"})
		}
		table, _ := running(t, f, Config{Static: static})
		time.Sleep(time.Minute)
		synctest.Wait()
		p, _ := table.Peer("well")
		f.with("u:well", func(h *fakeHost) {
			if n := len(h.polls); n < 30 || n > 31 || !p.Settled || h.streams != 1 {
				t.Errorf("%d polls in a minute, want one every 2 s; %d streams, settled %v", n, h.streams, p.Settled)
			}
			for i := range h.polls[1:] {
				if gap := h.polls[i+1].Sub(h.polls[i]); gap > 2*time.Second {
					t.Errorf("a poll came %v after the one before", gap)
				}
			}
		})
		if p, _ := table.Peer("silent7"); p.Up || p.Error == "" {
			t.Errorf("a silent peer: %+v", p)
		}
	})
}

func TestTablePollsAndSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		table, lines := running(t, f, Config{Static: []Static{{HostID: "b", ControlURL: "u:b"}, {HostID: "self", ControlURL: "u:self"}, {HostID: "c"}}})
		synctest.Wait()
		got := table.Snapshot()
		if len(got) != 2 || got[0].HostID != "b" || !got[0].Up || got[0].Settled || got[1].Error != "no control url" || !got[1].Link.Up {
			t.Fatalf("after the first poll: %+v", got)
		}
		time.Sleep(2*time.Second + time.Millisecond)
		synctest.Wait()
		if p, _ := table.Peer("b"); !p.Settled || p.BootID != "boot-u:b" {
			t.Errorf("after the second poll: %+v", p)
		}
		f.with("u:b", func(h *fakeHost) { h.err = ErrConnect })
		time.Sleep(20 * time.Second)
		synctest.Wait()
		p, _ := table.Peer("b")
		if p.Up || p.Error != "connect" || p.Offers() != nil || p.Inventory == nil {
			t.Errorf("after the peer went: %+v", p)
		}
		if n := lines.count("peer_down"); n != 2 {
			t.Errorf("%d lines peer_down, want one for b and one for c without a URL", n)
		}
		f.with("u:b", func(h *fakeHost) { h.err, h.boot = nil, "another" })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if p, _ := table.Peer("b"); !p.Up || p.Incarnation != 2 || lines.count("peer_restarted") != 1 {
			t.Errorf("after the restart: %+v", p)
		}
	})
}

func TestTableFollowsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		table, _ := running(t, f, Config{Static: []Static{{HostID: "b", ControlURL: "u:b"}}})
		time.Sleep(3 * time.Second)
		synctest.Wait()
		polls := func() (n int) {
			f.with("u:b", func(h *fakeHost) { n = len(h.polls) })
			return n
		}
		before := polls()
		f.mu.Lock()
		events := f.events["u:b"]
		f.mu.Unlock()
		// The original says so on every pass.
		for range 5 {
			events <- Event{"inventory", "1"}
		}
		synctest.Wait()
		if polls() != before {
			t.Error("a known revision caused a poll")
		}
		f.with("u:b", func(h *fakeHost) { h.inv = &Inventory{Revision: 2} })
		events <- Event{"inventory", "2"}
		synctest.Wait()
		if p, _ := table.Peer("b"); polls() != before+1 || p.Inventory.Revision != 2 {
			t.Errorf("a new revision: %d polls, %+v", polls()-before, p.Inventory)
		}
		// A storm costs one poll in 200 ms.
		begun := time.Now()
		for i := range 1000 {
			events <- Event{"peer", time.Duration(i).String()}
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := polls() - before - 1; n > int(time.Since(begun)/pollGap)+1 {
			t.Errorf("%d polls in %v", n, time.Since(begun))
		}
	})
}

func TestTableFallsBackSilently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.with("u:b", func(h *fakeHost) { h.noStream = true })
		table, lines := running(t, f, Config{Static: []Static{{HostID: "b", ControlURL: "u:b"}}})
		time.Sleep(time.Hour + time.Millisecond)
		synctest.Wait()
		f.with("u:b", func(h *fakeHost) {
			if h.streams < 50 || h.streams > 70 {
				t.Errorf("%d attempts in an hour, want about one a minute", h.streams)
			}
			if len(h.polls) != 1801 {
				t.Errorf("%d polls in an hour", len(h.polls))
			}
		})
		lines.mu.Lock()
		n := strings.Count(lines.buf.String(), "\n")
		lines.mu.Unlock()
		if p, _ := table.Peer("b"); !p.Settled || n != 1 {
			t.Errorf("%d log lines, want peer_up only; %+v", n, p)
		}
	})
}

func TestTableMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		table, lines := running(t, f, Config{})
		table.SetDiscovered([]Discovered{{"b", "u:b1"}, {"self", "u:self"}, {"c", "u:c"}})
		synctest.Wait()
		if got := table.Snapshot(); len(got) != 2 || got[0].ControlURL != "u:b1" || !got[0].Up {
			t.Fatalf("discovered: %+v", got)
		}
		table.SetStatic([]Static{{HostID: "b", LocalFabricAddr: "192.0.2.1", Provider: "tcp"}})
		synctest.Wait()
		if p, _ := table.Peer("b"); p.ControlURL != "u:b1" || p.Provider != "tcp" || p.LocalFabricAddr != "192.0.2.1" || p.Incarnation != 1 {
			t.Errorf("a static entry without URL keeps the discovered one: %+v", p)
		}
		table.SetStatic([]Static{{HostID: "b", ControlURL: "u:b2"}})
		time.Sleep(time.Second)
		synctest.Wait()
		if p, _ := table.Peer("b"); p.ControlURL != "u:b2" || p.Provider != "" || p.Incarnation != 2 || lines.count("peer_restarted") != 1 {
			t.Errorf("another URL with another process behind it: %+v", p)
		}
		table.SetDiscovered(nil)
		table.SetStatic(nil)
		synctest.Wait()
		if got := table.Snapshot(); len(got) != 0 {
			t.Errorf("all gone: %+v", got)
		}
		f.with("u:c", func(h *fakeHost) { h.boot = "c2" })
		table.SetDiscovered([]Discovered{{"c", "u:c"}})
		synctest.Wait()
		if p, _ := table.Peer("c"); p.Incarnation != 2 {
			t.Errorf("a peer that came back as another process: %+v", p)
		}
	})
}

func TestTableNamesProblemsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		problem := Problem{DomainID: "d", FlowID: "f", Reason: "flow_def is not an object"}
		f.with("u:b", func(h *fakeHost) { h.inv = &Inventory{Revision: 1, Problems: []Problem{problem, problem}} })
		_, lines := running(t, f, Config{Static: []Static{{HostID: "b", ControlURL: "u:b"}}})
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := lines.count("peer_record_invalid"); n != 1 {
			t.Errorf("%d lines", n)
		}
	})
}

func TestTableInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		table, _ := running(t, f, Config{Static: []Static{{HostID: "b", ControlURL: "u:b"}}})
		time.Sleep(time.Second)
		table.SetInterval(500 * time.Millisecond)
		time.Sleep(10*time.Second + 50*time.Millisecond)
		synctest.Wait()
		f.with("u:b", func(h *fakeHost) {
			if n := len(h.polls); n < 20 || n > 23 {
				t.Errorf("%d polls", n)
			}
		})
	})
}

func TestTableLinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		now := []Interface{{Name: "e1", Addrs: addrs("192.0.2.1"), Carrier: true, OperState: "up"}}
		watch := &LinkWatch{}
		watch.current.Store(&now)
		watch.Use()
		table, lines := running(t, f, Config{Links: watch, FabricInterface: "192.0.2.1",
			Static: []Static{{HostID: "b", ControlURL: "u:b", LocalFabricAddr: "198.51.100.1"}, {HostID: "c", ControlURL: "u:c"}}})
		synctest.Wait()
		b, _ := table.Peer("b")
		c, _ := table.Peer("c")
		if b.Link.Up || b.Link.Error != "source interface unavailable: no local interface has 198.51.100.1" || c.Link != (Link{Up: true, Interface: "e1"}) {
			t.Fatalf("links %+v %+v", b.Link, c.Link)
		}
		next := []Interface{
			{Name: "e1", Addrs: addrs("192.0.2.1"), OperState: "down"},
			{Name: "e2", Addrs: addrs("198.51.100.1"), Carrier: true, OperState: "up"},
		}
		watch.current.Store(&next)
		watch.tell()
		synctest.Wait()
		b, _ = table.Peer("b")
		c, _ = table.Peer("c")
		if b.Link != (Link{Up: true, Interface: "e2"}) || c.Link != (Link{Error: "no carrier on e1 (down)", Interface: "e1"}) {
			t.Errorf("links %+v %+v", b.Link, c.Link)
		}
		if lines.count("peer_link_down") != 2 || lines.count("peer_link_up") != 1 {
			t.Errorf("lines:\n%s", &lines.buf)
		}
		// A peer that gets another control URL starts over; its link is still down,
		// which was said.
		table.SetStatic([]Static{{HostID: "b", ControlURL: "u:b", LocalFabricAddr: "198.51.100.1"}, {HostID: "c", ControlURL: "u:c2"}})
		synctest.Wait()
		if c, _ = table.Peer("c"); c.ControlURL != "u:c2" || c.Link.Up || lines.count("peer_link_down") != 2 {
			t.Errorf("%+v, lines:\n%s", c.Link, &lines.buf)
		}
	})
}

package fabrics

import (
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// rawPeer is an initiator that sends whatever it is told: what a faulty or hostile
// peer would.
type rawPeer struct {
	t      testing.TB
	info   *ofi.Info
	fabric *ofi.Fabric
	events *ofi.EventQueue
	poller *ofi.Poller
	queue  *ofi.CompletionQueue
	spare  *ofi.CompletionQueue
	ep     *ofi.Endpoint
	mem    []byte
	region *ofi.Memory
	writes *ofi.Writes
	data   []byte // sent with the connection request
}

// newRawPeer opens everything but the connection. separate binds a queue for each
// direction, which is the form that verbs uses.
func newRawPeer(t testing.TB, address string, size int, separate bool) *rawPeer {
	t.Helper()
	p := &rawPeer{t: t}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p.info, err = ofi.GetInfo(ofi.Query{Provider: "tcp", Address: address, Role: ofi.Sender})
	must()
	p.fabric, err = ofi.Open(p.info)
	must()
	p.events, err = p.fabric.OpenEventQueue(8)
	must()
	p.queue, err = p.fabric.OpenCompletionQueue(64)
	must()
	p.spare = p.queue
	if separate {
		p.spare, err = p.fabric.OpenCompletionQueue(8)
		must()
	}
	p.poller, err = p.fabric.NewPoller(p.events, 64)
	must()
	p.poller.Watch(p.queue)
	p.mem, err = anonymous(size)
	must()
	p.region, err = p.fabric.Register(p.info, p.mem, ofi.AccessSource, 1)
	must()
	p.writes, err = ofi.NewWrites(64)
	must()
	t.Cleanup(p.close)
	return p
}

func (p *rawPeer) close() {
	if p.fabric == nil {
		return
	}
	p.hangUp()
	p.writes.Close()
	p.region.Close()
	if p.spare != p.queue {
		p.spare.Close()
	}
	p.queue.Close()
	p.poller.Close()
	p.events.Close()
	if err := p.fabric.Close(); err != nil {
		p.t.Errorf("raw peer: %v", err)
	}
	p.info.Close()
	unmap(&p.mem)
	p.fabric = nil
}

// dial starts a connection without waiting for its end.
func (p *rawPeer) dial(info TargetInfo) {
	p.t.Helper()
	peer, err := p.info.WithPeer(info.Address)
	if err != nil {
		p.t.Fatal(err)
	}
	defer peer.Close()
	if p.ep, err = p.fabric.OpenEndpoint(peer, p.events, p.queue, p.spare); err != nil {
		p.t.Fatal(err)
	}
	if err := p.ep.Connect(info.Address, p.data); err != nil {
		p.t.Fatal(err)
	}
}

// wait polls until an event comes and returns its kind; 0 when none came.
func (p *rawPeer) wait(limit time.Duration) (ofi.EventKind, error) {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		if _, err := p.poller.Poll(10 * time.Millisecond); err != nil {
			return 0, err
		}
		if e, ok := p.poller.Event(); ok {
			return e.Kind, e.Err
		}
	}
	return 0, nil
}

func (p *rawPeer) connect(info TargetInfo) {
	p.t.Helper()
	p.dial(info)
	if kind, err := p.wait(5 * time.Second); kind != ofi.EventConnected {
		p.t.Fatalf("event %v, %v; want connected", kind, err)
	}
}

func (p *rawPeer) hangUp() {
	if p.ep != nil {
		_ = p.ep.Shutdown()
		p.ep.Close()
		p.ep = nil
	}
}

// write sends the first n bytes of memory to a region, with an immediate.
func (p *rawPeer) write(r Region, n uint64, immediate uint32) {
	p.t.Helper()
	p.writes.Reset()
	p.writes.Add(p.ep, 1, r.Addr, r.RKey)
	p.writes.Segment(p.region, 0, n)
	p.writes.Immediate(immediate)
	if p.writes.Post() != 1 {
		p.t.Fatalf("post: %v", p.writes.Result(0))
	}
}

// completed waits for n completions.
func (p *rawPeer) completed(n int, limit time.Duration) {
	p.t.Helper()
	for deadline := time.Now().Add(limit); n > 0; {
		got, err := p.poller.Poll(10 * time.Millisecond)
		if err != nil {
			p.t.Fatal(err)
		}
		if n -= got; n > 0 && time.Now().After(deadline) {
			p.t.Fatalf("%d writes did not complete within %v", n, limit)
		}
	}
}

// putGrainHeader writes a grain file's header (MXL format reference §4.3).
func putGrainHeader(dst, like []byte, index uint64) {
	copy(dst[:grainHeader], like[:grainHeader])
	for i := range 8 {
		dst[8+i] = byte(index >> (8 * i))
	}
}

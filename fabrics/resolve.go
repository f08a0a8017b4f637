package fabrics

import (
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// resolveLimit is more than libfabric takes to give up an address (2 s), so that its
// own error is the one that is reported.
const resolveLimit = 3 * time.Second

// resolvesSlowly tells whether opening an endpoint may wait for a peer that does not
// answer: the verbs provider of libfabric before 1.21 does.
func resolvesSlowly(i *ofi.Info) bool { return i.ReceivePerImmediate() }

// resolve opens d's endpoint away from the lane's thread, which would keep every other
// destination waiting for a dead host. It takes peer over.
func (l *sourceLane) resolve(d *destination, peer *ofi.Info) {
	serial := d.serial
	l.resolvers.Add(1)
	l.resolving++
	go func() {
		defer l.resolvers.Done()
		e, err := l.fabric.ResolveEndpoint(peer)
		peer.Close()
		if !l.do(func() {
			l.resolving--
			l.resolved(d, serial, e, err)
		}) {
			_ = e.Close() // the lane is closed
		}
	}()
}

// resolved goes on with a connection whose endpoint was opened.
func (l *sourceLane) resolved(d *destination, serial uint32, e *ofi.Endpoint, err error) {
	now := l.now()
	if d.phase != phaseConnecting || d.serial != serial {
		_ = e.Close() // removed meanwhile, or given up
		return
	}
	d.endpoint = e
	if err == nil {
		err = e.Bind(l.events, l.queue, l.spare)
	}
	if err == nil {
		err = e.Connect(d.info.Address, signature{instance: l.instance, secret: d.info.Secret, rounds: d.info.Native > 0}.bytes())
	}
	if err != nil {
		l.disconnect(d, err, now)
		return
	}
	d.deadline = now + int64(handshakeLimit)
}

// releaseFabric closes the fabric once no endpoint is being opened on it.
func (l *sourceLane) releaseFabric() {
	if l.resolving == 0 {
		l.release()
		return
	}
	// Bounded by the provider's own limit of 2 s; the lane need not wait for it.
	go func() {
		l.resolvers.Wait()
		l.release()
	}()
}

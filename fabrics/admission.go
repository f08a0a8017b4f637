package fabrics

import (
	"crypto/rand"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// secret is what a target gives to its initiator in TargetInfo and wants to see in
// the connection data. The zero value is none.
type secret [16]byte

func newSecret() (s secret) {
	// Never fails (crypto/rand).
	_, _ = rand.Read(s[:])
	return s
}

func (s secret) given() bool { return s != secret{} }

func (s secret) is(other secret) bool { return subtle.ConstantTimeCompare(s[:], other[:]) == 1 }

// admission is who may connect to a target. libfabric trusts whoever it has
// connected, so a stranger must not get that far.
type admission struct {
	secret secret
	// secretOnly refuses whoever does not know the secret. The SDK's initiators never
	// do, so it is set only once the source is known to be one of this package.
	secretOnly bool
	// peers are the addresses that one without the secret may come from; none means
	// that they are not known, and any will do.
	peers []netip.Addr
}

// refusal is why an initiator that comes from an address with a secret may not
// connect; empty when it may.
func (a *admission) refusal(from netip.Addr, echoed secret) string {
	switch {
	case echoed.given() && a.secret.is(echoed):
		return ""
	case echoed.given():
		return "it has the secret of another target"
	case a.secretOnly:
		return "it does not know the target's secret"
	case len(a.peers) > 0 && !slices.Contains(a.peers, from.Unmap().WithZone("")):
		return fmt.Sprintf("it is none of the peer's addresses %v", a.peers)
	}
	return ""
}

// strangerLogEvery bounds how often a lane names who it refuses.
const strangerLogEvery = 10 * time.Second

// admits decides about a request; who is refused is counted, and named when it is
// another one than the last.
func (l *targetLane) admits(r *connectionRequest) bool {
	why := l.admission.refusal(r.from, r.secret)
	if why == "" {
		return true
	}
	l.numbers.strangers.Add(1)
	if now, who := l.now(), r.from.String()+" "+why; who != l.stranger && now >= l.strangerLog {
		l.stranger, l.strangerLog = who, now+int64(strangerLogEvery)
		l.log.Warn("fabric_stranger_refused", "flow_id", l.cfg.FlowID, "address", r.from.String(), "reason", why)
	}
	if err := l.listener.Reject(r.info); err != nil {
		l.log.Debug("fabric_reject_failed", "flow_id", l.cfg.FlowID, "error", err.Error())
	}
	return false
}

// RequireSecret refuses from now on whoever does not know the secret of Info: the
// source has said that it is one that echoes it. A connection that stands stays.
func (t *Target) RequireSecret() {
	t.lane.do(func() { t.lane.admission.secretOnly = true })
}

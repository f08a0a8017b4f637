package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"strconv"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/rdmacm"
)

// ownerTries is how many passes a queue pair waits for its flow to be known: a
// target's address is published after the connection may have been made.
const ownerTries = 5

// queuePairOwner is the flow that a queue pair carries and the host at the other end.
type queuePairOwner struct {
	Flow uuid.UUID
	Peer string
}

// queuePairs reports the queue pairs that were established. Only the reconcile loop
// uses it.
type queuePairs struct {
	log     *slog.Logger
	count   func(role, ackTimeout, retryCount string)
	waiting []waitingQueuePair
}

type waitingQueuePair struct {
	rdmacm.QueuePair
	tries int
}

// setQueuePairs applies FABRIC_ACK_TIMEOUT and FABRIC_RETRY_COUNT and says whether
// they can reach the queue pairs.
func setQueuePairs(cfg *config.Config, log *slog.Logger, hooked bool) {
	rdmacm.Configure(rdmacm.Settings{ACKTimeout: cfg.FabricACKTimeout, RetryCount: cfg.FabricRetryCount})
	level := slog.LevelInfo
	if !hooked {
		level = slog.LevelWarn
	}
	log.LogAttrs(context.Background(), level, "fabric_qp_settings",
		slog.Int("ack_timeout", cfg.FabricACKTimeout), slog.Int64("ack_timeout_ms", ackMilliseconds(cfg.FabricACKTimeout)),
		slog.Int("retry_count", cfg.FabricRetryCount), slog.Bool("rdma_cm_hooks", hooked))
}

// ackMilliseconds is an exponent's duration in whole milliseconds, rounded.
func ackMilliseconds(exponent int) int64 {
	return (rdmacm.AckTime(exponent).Microseconds() + 500) / 1000
}

// report logs and counts what was established since the last call, and what waits
// for its owner.
func (q *queuePairs) report(fresh []rdmacm.QueuePair, cfg *config.Config, owner func(rdmacm.QueuePair) (queuePairOwner, bool)) {
	for _, pair := range fresh {
		q.waiting = append(q.waiting, waitingQueuePair{QueuePair: pair})
		q.count(countedAs(pair))
	}
	kept := q.waiting[:0]
	for _, w := range q.waiting {
		o, known := owner(w.QueuePair)
		if w.tries++; !known && w.tries < ownerTries {
			kept = append(kept, w)
			continue
		}
		q.say(w.QueuePair, o, known, cfg)
	}
	clear(q.waiting[len(kept):])
	q.waiting = kept
}

// countedAs are the labels of fabric_qp_established_total.
func countedAs(p rdmacm.QueuePair) (role, ackTimeout, retryCount string) {
	if p.QueryError != nil {
		return p.Role.String(), "unknown", "unknown"
	}
	return p.Role.String(), reported(p), strconv.Itoa(p.RetryCount)
}

func reported(p rdmacm.QueuePair) string {
	if p.ACKTimeout == 0 {
		return "unreported"
	}
	return strconv.Itoa(p.ACKTimeout)
}

// say logs one queue pair (contract, "Audio timing"): a warning only when a value
// differs from the setting or the timeout was refused.
func (q *queuePairs) say(p rdmacm.QueuePair, o queuePairOwner, known bool, cfg *config.Config) {
	flow := ""
	if known {
		flow = o.Flow.String()
	}
	_, ackTimeout, retryCount := countedAs(p)
	attrs := []slog.Attr{
		slog.String("role", p.Role.String()), slog.String("flow_id", flow), slog.String("peer", o.Peer),
		slog.String("local", p.Local.String()), slog.String("remote", p.Remote.String()),
		slog.String("device", p.Device), slog.Uint64("qp_num", uint64(p.Number)),
		slog.String("ack_timeout", ackTimeout), slog.Int64("ack_timeout_ms", ackMilliseconds(p.ACKTimeout)),
		slog.String("retry_count", retryCount), slog.Int("rnr_retry", p.RNRRetry),
		slog.Int("requested_ack_timeout", p.Wanted.ACKTimeout), slog.Int("requested_retry_count", cfg.FabricRetryCount),
		slog.Bool("checked", p.Checked()), slog.Bool("applied", p.Applied()),
	}
	if p.QueryError != nil {
		attrs = append(attrs, slog.String("query_error", p.QueryError.Error()))
	}
	level := slog.LevelInfo
	if p.OptionError != nil {
		attrs = append(attrs, slog.String("option_error", p.OptionError.Error()))
		level = slog.LevelWarn
	} else if p.Differs() {
		level = slog.LevelWarn
	}
	q.log.LogAttrs(context.Background(), level, "fabric_qp", attrs...)
}

// reportQueuePairs is the reconcile loop's part.
func (a *Agent) reportQueuePairs(cfg *config.Config) {
	a.queuePairs.report(rdmacm.Established(), cfg, a.queuePairOwner)
}

// queuePairOwner finds the flow of a queue pair by the target's address, which is
// the far end of a source's and the near end of a destination's.
func (a *Agent) queuePairOwner(p rdmacm.QueuePair) (queuePairOwner, bool) {
	if p.Role == rdmacm.Source {
		return a.sources.sendingTo(p.Remote)
	}
	for _, pl := range a.pullIndex.all() {
		v := pl.seen.Load()
		if v.lane != nil && v.Provider == fabrics.Verbs && listensOn(v.lane.Info(), p.Local) {
			return queuePairOwner{Flow: v.Key.Flow, Peer: v.Key.Peer}, true
		}
	}
	return queuePairOwner{}, false
}

// sendingTo finds the flow that goes to the target at an address.
func (s *sources) sendingTo(address netip.AddrPort) (queuePairOwner, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.rows {
		if row.group.key.Provider != fabrics.Verbs {
			continue
		}
		if sameEndpoint(row.target, address) {
			return queuePairOwner{Flow: row.key.Flow, Peer: row.key.Dest}, true
		}
	}
	return queuePairOwner{}, false
}

func listensOn(info fabrics.TargetInfo, address netip.AddrPort) bool {
	at, err := info.AddrPort()
	return err == nil && sameEndpoint(at, address)
}

// sameEndpoint compares what a TargetInfo names with the address of a queue pair, which
// has neither zone nor mapped form.
func sameEndpoint(at, address netip.AddrPort) bool {
	return at.Port() == address.Port() && at.Addr().Unmap().WithZone("") == address.Addr()
}

package metrics

import (
	"strings"
)

const destination = "destination"

// replications is the replication table.
func (r *rows) replications(list []Replication) {
	for _, role := range []string{"source", destination} {
		for _, provider := range []string{"verbs", "tcp"} {
			r.add(replicationsActive, sum, 0, role, provider)
		}
	}
	for _, row := range list {
		if row.State == "active" || row.State == "pending" {
			r.add(replicationsActive, sum, 1, row.Role, row.Provider)
		}
		if !r.perFlow {
			continue
		}
		flow, peer := utf8(row.FlowID), utf8(row.Peer)
		r.add(replicationState, largest, 1, flow, peer, row.Role, row.State)
		r.add(replicationGrains, sum, float64(row.Grains), flow, peer, row.Role)
		r.add(replicationBytes, sum, float64(row.Bytes), flow, peer, row.Role)
		r.add(replicationErrors, sum, float64(row.Errors), flow, peer, row.Role)
		r.add(queueDepth, largest, float64(row.QueueDepth), flow)
		if row.Role == destination {
			r.add(replicationRestarts, sum, float64(row.Restarts), flow, peer)
			r.add(replicationLagGrains, largest, row.LagGrains, flow, peer)
			r.add(replicationLagMS, largest, row.LagMS, flow, peer)
		} else {
			r.add(replicationGaps, sum, float64(row.OriginGaps), flow, peer)
		}
	}
}

// timing is what the lanes measured.
func (r *rows) timing(lanes []Lane, total account) {
	for provider, b := range total.grainTransfer {
		r.histogram(grainTransfer, b, provider)
		r.emit(grainStalls, float64(total.grainStalls[provider]), provider)
	}
	r.emit(strangersRefused, float64(total.strangers))
	for task, b := range total.threadStall {
		r.histogram(threadStall, b, utf8(task))
	}
	if !r.perFlow {
		r.emit(lateDeliveries, float64(total.late))
		r.samples(total)
		return
	}
	byFlow := make(map[string]account)
	for _, l := range lanes {
		a, ok := byFlow[l.FlowID]
		if !ok {
			a = newAccount()
		}
		a.add(l)
		byFlow[l.FlowID] = a
	}
	for id, a := range byFlow {
		if a.delivers {
			r.emit(lateDeliveries, float64(a.late), utf8(id))
		}
		r.samples(a, utf8(id))
	}
}

// samples emits the families of continuous flows, of one flow or of all.
func (r *rows) samples(a account, flow ...string) {
	for stage, b := range a.age {
		labels := append(append([]string(nil), flow...), stage)
		r.histogram(sampleAge, b, labels...)
		r.emit(sampleAgeMax, b.Max, labels...)
	}
	r.histogram(deliveryGap, a.gap, flow...)
	if len(a.sampleTransfer.Counts) == 0 {
		return
	}
	r.histogram(sampleTransfer, a.sampleTransfer, flow...)
	r.emit(sampleTransferMax, a.sampleTransfer.Max, flow...)
	for provider, n := range a.sampleStalls {
		r.emit(sampleStalls, float64(n), append([]string{provider}, flow...)...)
	}
}

// mirrors is the health of what is mirrored here.
func (r *rows) mirrors(s Snapshot, rebuilds uint64) {
	stale := 0
	for _, m := range s.Mirrors {
		if m.State == "stale" {
			stale++
		}
		if !r.perFlow {
			continue
		}
		labels := []string{utf8(m.DomainID), utf8(m.FlowID), utf8(m.Peer)}
		r.add(mirrorRebuilds, sum, float64(m.Rebuilds), labels...)
		if m.State == "absent" {
			continue
		}
		r.add(mirrorStale, largest, truth(m.State == "stale"), labels...)
		r.add(mirrorState, largest, 1, append(labels[:3:3], m.State)...)
		if m.LastGrainAge != nil {
			r.add(mirrorAge, largest, m.LastGrainAge.Seconds(), labels...)
		}
	}
	if !r.perFlow {
		r.emit(mirrorRebuilds, float64(rebuilds))
	}
	r.emit(mirrorsStale, float64(stale))
	r.states(mirrorDomains, s.MirrorDomains, "same_node", "orphan", "active", "idle")
}

// utf8 makes a label value out of what others named: a bad byte in a peer's
// host id must not cost the whole page.
func utf8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

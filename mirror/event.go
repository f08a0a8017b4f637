package mirror

import (
	"context"
	"log/slog"
	"time"
)

// EventKind names what a pass changed. The value is the event name of the log.
type EventKind string

// Kinds of events.
const (
	EventStale             EventKind = "mirror_stale"
	EventRecovered         EventKind = "mirror_recovered"
	EventRebuilt           EventKind = "mirror_rebuilt"
	EventOriginMissing     EventKind = "mirror_flow_origin_missing"
	EventFlowKept          EventKind = "mirror_flow_kept_reader"
	EventFlowWouldRemove   EventKind = "mirror_flow_would_remove"
	EventDomainBusy        EventKind = "mirror_domain_busy"
	EventDomainWouldRemove EventKind = "mirror_domain_would_remove"
)

// Event is one thing that others want to hear about: a log line and, for
// stale, recovered and rebuilt, the SSE event mirror. Only the fields of its
// kind are set.
type Event struct {
	Kind EventKind
	Key
	Peer string

	Health     Health // stale, recovered, rebuilt
	StaleAfter time.Duration
	StaleFor   time.Duration // recovered
	Memory     RebuildMemory // for the health fields of the SSE event

	Reason          Reason // rebuilt, kept, would remove, busy
	Rebuilds        int
	OldInode, Inode uint64
	Missing         time.Duration
	Readers         []Reader
	Why, Path       string
}

func (o *Outcome) add(e Event) { o.Events = append(o.Events, e) }

// Name is the member event of the SSE event mirror; empty when the event does
// not go out there.
func (e Event) Name() string {
	switch e.Kind {
	case EventStale:
		return "stale"
	case EventRecovered:
		return "recovered"
	case EventRebuilt:
		return "rebuilt"
	}
	return ""
}

// Log writes the event's line (agent API reference §18).
func (e Event) Log(log *slog.Logger) {
	level := slog.LevelInfo
	attrs := []slog.Attr{slog.String("domain_id", e.DomainID)}
	flow := func() {
		attrs = append(attrs, slog.String("flow_id", e.FlowID.String()), slog.String("peer", e.Peer))
	}
	switch e.Kind {
	case EventStale:
		level = slog.LevelWarn
		flow()
		attrs = append(attrs, slog.String("reason", e.Health.Reason))
		if e.Health.HasGrain {
			attrs = append(attrs, slog.Int64("last_grain_age_ms", e.Health.GrainAge.Milliseconds()))
		}
		attrs = append(attrs, slog.Int64("stale_after_ms", e.StaleAfter.Milliseconds()))
	case EventRecovered:
		flow()
		attrs = append(attrs, slog.String("state", string(e.Health.State)), slog.String("reason", e.Health.Reason),
			slog.Int64("stale_ms", e.StaleFor.Milliseconds()))
	case EventRebuilt:
		level = slog.LevelWarn
		flow()
		attrs = append(attrs, slog.String("reason", string(e.Reason)), slog.Int("rebuilds", e.Rebuilds),
			slog.Uint64("old_inode", e.OldInode), slog.Uint64("inode", e.Inode))
	case EventOriginMissing:
		flow()
	case EventFlowKept, EventFlowWouldRemove:
		flow()
		attrs = append(attrs, slog.String("reason", string(e.Reason)))
		if e.Reason == OriginMissing {
			attrs = append(attrs, seconds("missing_s", e.Missing))
		}
		attrs = append(attrs, e.readers()...)
	case EventDomainBusy, EventDomainWouldRemove:
		attrs = append(attrs, slog.String("domain", e.DomainID), slog.String("path", e.Path), slog.String("reason", string(e.Reason)))
		attrs = append(attrs, e.readers()...)
	}
	if e.Kind == EventFlowKept || e.Kind == EventDomainBusy {
		level = slog.LevelWarn
	}
	log.LogAttrs(context.Background(), level, string(e.Kind), attrs...)
}

func (e Event) readers() []slog.Attr {
	switch {
	case len(e.Readers) > 0:
		return []slog.Attr{slog.String("readers", pidList(e.Readers))}
	case e.Why != "":
		return []slog.Attr{slog.String("error", e.Why)}
	}
	return nil
}

// LogFlow writes mirror_flow_removed for a removal of one flow whose origin had
// been missing for so long.
func (r Removal) LogFlow(log *slog.Logger, missing time.Duration) {
	for _, k := range r.Flows {
		log.LogAttrs(context.Background(), slog.LevelInfo, "mirror_flow_removed",
			slog.String("domain_id", k.DomainID), slog.String("flow_id", k.FlowID.String()),
			slog.String("path", r.Path), slog.String("reason", string(r.Reason)), seconds("missing_s", missing))
	}
}

// LogDomain writes mirror_domain_removed, a warning when somebody reads what is
// gone.
func (r Removal) LogDomain(log *slog.Logger) {
	attrs := []slog.Attr{
		slog.String("domain_id", r.DomainID), slog.String("domain", r.DomainID), slog.String("path", r.Path),
		slog.String("reason", string(r.Reason)), slog.Int("flows", len(r.Flows)),
	}
	level := slog.LevelInfo
	if len(r.Readers) > 0 {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("readers", pidList(r.Readers)))
	}
	log.LogAttrs(context.Background(), level, "mirror_domain_removed", attrs...)
}

func seconds(key string, d time.Duration) slog.Attr {
	return slog.Int64(key, int64(d/time.Second))
}

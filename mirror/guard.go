package mirror

import "time"

// StartGuard is how long after its start the agent removes nothing: its view
// of peers, registry and receivers is not complete before (contract, "Mirror
// cleanup", Safety).
const StartGuard = 30 * time.Second

// Guard names what holds back a removal that is otherwise due. The empty guard
// holds nothing back.
type Guard string

// Guards, in the order in which they are looked at.
const (
	NoGuard        Guard = ""
	JustStarted    Guard = "just_started"      // within StartGuard
	RegistrySilent Guard = "registry_silent"   // NMOS is on and the registry does not answer
	NotSettled     Guard = "inventory_pending" // the deciding inventories are not settled
	GraceRuns      Guard = "grace"             // the grace time is not over
	ReadersUnknown Guard = "readers_unknown"   // the reader check is incomplete, or was not made yet
	ReadersMapped  Guard = "readers"           // a process maps a file
	DryRun         Guard = "dry_run"           // MIRROR_CLEANUP_DRY_RUN=true
)

// Surroundings is what every removal depends on besides its own facts.
type Surroundings struct {
	SinceStart      time.Duration // how long this agent runs
	NMOS            bool          // NMOS is on and a registry is configured
	RegistryAnswers bool          // it answered the last time it was asked
	DryRun          bool          // MIRROR_CLEANUP_DRY_RUN
}

// holds gives the guard that the surroundings put on a removal that does or
// does not depend on what the registry knows.
func (s Surroundings) holds(needsRegistry bool) Guard {
	switch {
	case s.SinceStart < StartGuard:
		return JustStarted
	case needsRegistry && s.NMOS && !s.RegistryAnswers:
		return RegistrySilent
	}
	return NoGuard
}

// ReaderFacts is what the reader check says about one flow or domain.
type ReaderFacts struct {
	Known  bool   // every process was seen, after the mirror came to be
	Why    string // why not
	Mapped []Reader
}

// holds gives the guard that readers put on a removal.
func (f ReaderFacts) holds(need sight) Guard {
	switch {
	case need == noCheck:
		return NoGuard
	case len(f.Mapped) > 0:
		return ReadersMapped
	case need == mustBeFree && !f.Known:
		return ReadersUnknown
	}
	return NoGuard
}

// GuardRemoval gives the guard on a removal that PlanFlow asked for. Demand is
// only known while the registry answers, so the removals that follow from "no
// receiver wants it" wait for it.
func GuardRemoval(reason Reason, around Surroundings, readers ReaderFacts) Guard {
	if g := around.holds(reason == NoDemand || reason == OriginGone); g != NoGuard {
		return g
	}
	if g := readers.holds(reason.needs()); g != NoGuard {
		return g
	}
	if around.DryRun {
		return DryRun
	}
	return NoGuard
}

package mirror

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Settings is the part of the configuration the decisions depend on.
type Settings struct {
	Eager        bool          // MIRROR_MODE=eager
	Filter       Filter        // MIRROR_INCLUDE_*, MIRROR_EXCLUDE_*
	Grace        time.Duration // MIRROR_GRACE_S
	IdleGrace    time.Duration // MIRROR_IDLE_GRACE_S; 0: never
	ReleaseGrace time.Duration // RELEASE_GRACE_MS
	StaleAfter   time.Duration // MIRROR_STALE_MS; 0: never
	ReserveMB    uint64        // TMPFS_RESERVE_MB
	DryRun       bool          // MIRROR_CLEANUP_DRY_RUN
}

// PeerFacts is what is known about one peer.
type PeerFacts struct {
	Up           bool // info and inventory answered at the last poll
	LinkUp       bool // its fabric link
	Settled      bool // see peers.Peer
	CountsAsDown bool // for removals; see peers.Peer.Decides
	// Lists is what its inventory lists; nil while it is not up.
	Lists map[string]map[uuid.UUID]bool // domain id, flow id
}

// Offer is an origin flow that an up peer lists; where several do, that of the
// peer that was chosen.
type Offer struct {
	Key
	Host      string
	Active    bool // a writer holds it
	Live      bool
	Head      *uint64   // nil: the source does not say
	PolledAt  time.Time // when the inventory was taken
	NeedBytes uint64    // of a mirror (Origin.NeedBytes)
}

// Facts is everything one pass of the Ledger looks at. Maps are read only
// during the pass.
type Facts struct {
	Now     time.Time
	TAI     uint64    // nanoseconds, of the same moment
	Started time.Time // of this agent
	Settings

	NMOS            bool // NMOS is on and a registry is configured
	RegistryAnswers bool

	LocalDomains map[string]bool // domains whose origin is on this node
	Foreign      map[string]bool // domain ids whose mirror directory is not ours (ErrForeign)
	Peers        map[string]PeerFacts
	Offers       []Offer
	Demand       map[Key]bool // a receiver on this host wants the flow
	OnDisk       []DomainOnDisk
	Readers      *ReaderReport
	FreeBytes    uint64

	listings listings // of Peers
}

// listings are the peers whose inventories list a domain, by domain id: every
// flow asks for those of its domain, and a plant has hundreds of peers.
type listings map[string][]PeerFacts

func listingsOf(peers map[string]PeerFacts) listings {
	out := listings{}
	for _, p := range peers {
		for id, flows := range p.Lists {
			if flows != nil {
				out[id] = append(out[id], p)
			}
		}
	}
	return out
}

// Offer gives the offer of a flow.
func (f *Facts) Offer(k Key) (o Offer, offered bool) {
	i := slices.IndexFunc(f.Offers, func(o Offer) bool { return o.Key == k })
	if i < 0 {
		return Offer{}, false
	}
	return f.Offers[i], true
}

// around gives what every removal depends on.
func (f *Facts) around() Surroundings {
	return Surroundings{
		SinceStart: age(f.Now, f.Started), NMOS: f.NMOS,
		RegistryAnswers: f.RegistryAnswers, DryRun: f.DryRun,
	}
}

// sightOf says what is known about a peer. One that has been unsettled for too
// long counts as down, for its domains as for their single flows: it answers, but
// what it does not list it may have all the same.
func (f *Facts) sightOf(host string) PeerSight {
	p, known := f.Peers[host]
	switch {
	case !known:
		return PeerUnknown
	case !p.Up, p.CountsAsDown:
		return PeerDown
	}
	return PeerUp
}

// listed says whether an up peer lists the domain.
func (f *Facts) listed(domainID string) bool {
	for _, p := range f.listings[domainID] {
		if p.Up {
			return true
		}
	}
	return false
}

// offered says whether an up peer lists the flow.
func (f *Facts) offered(k Key) bool {
	for _, p := range f.listings[k.DomainID] {
		if p.Up && p.Lists[k.DomainID][k.FlowID] {
			return true
		}
	}
	return false
}

// settled says whether the inventories that decide about a domain are settled:
// that of its source peer and of every up peer that lists it. A peer that
// counts as down does not decide.
func (f *Facts) settled(domainID, source string) bool {
	waits := func(p PeerFacts) bool { return p.Up && !p.Settled && !p.CountsAsDown }
	if waits(f.Peers[source]) {
		return false
	}
	return !slices.ContainsFunc(f.listings[domainID], waits)
}

package peers

import "time"

// Static is one entry of PEERS (agent API reference §12.3).
type Static struct {
	HostID           string
	ControlURL       string
	LocalFabricAddr  string
	RemoteFabricAddr string
	Provider         string
}

// Discovered is an agent that NMOS discovery found: a Node with the agent's
// service type.
type Discovered struct {
	HostID     string
	ControlURL string // the service href
}

// Peer is what is known of one other agent, a value: it does not change
// after it was handed out, and nor does its Inventory.
type Peer struct {
	HostID     string
	ControlURL string
	// Provider and the addresses are those of the static entry, empty
	// without one.
	Provider         string
	LocalFabricAddr  string
	RemoteFabricAddr string

	// Up: the last poll of /info and /inventory answered 200 both.
	Up      bool
	UpSince time.Time // zero while down
	// Error says why the peer is down; empty when up.
	Error string
	// Warning says that the agent that answers is another one than expected, as
	// of the last good poll; empty when it is the right one.
	Warning string
	BootID  string // of the last good poll
	// Incarnation rises by one whenever the peer turned out to have
	// restarted: another boot id, or a revision that went down. It starts
	// at 1 with the first good poll.
	Incarnation uint64
	// Settled: two good polls in a row with the same boot id, and an
	// inventory from a finished scan.
	Settled bool
	// UnsettledSince is when the peer was last settled or first seen; zero
	// while settled.
	UnsettledSince time.Time

	Info Info
	// Inventory is the last one received, also while the peer is down
	// (then only good for names, not for decisions); nil before the first.
	Inventory *Inventory
	// ReceivedAt is when Inventory, and with it every head index, arrived.
	ReceivedAt time.Time
	PolledAt   time.Time // last poll, good or not

	Link Link
}

// unsettledLimit is how long a peer may stay unsettled before it counts as
// down for removals (contract, "Single mirror flows").
const unsettledLimit = 60 * time.Second

// Decides reports whether the peer's inventory may decide about removals,
// and down whether the peer has to be treated as down for them. Neither is
// true while the peer has to be waited for.
func (p *Peer) Decides(now time.Time) (decides, down bool) {
	switch {
	case !p.Up:
		return false, true
	case p.Settled:
		return true, false
	}
	return false, now.Sub(p.UnsettledSince) > unsettledLimit
}

// Offers is the peer's inventory while the peer is up, else nil: the
// inventory of a peer that is down is not used.
func (p *Peer) Offers() *Inventory {
	if !p.Up {
		return nil
	}
	return p.Inventory
}

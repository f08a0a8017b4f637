package mirror

import "time"

// UnsettledLimit is how long a peer may stay unsettled before it counts as
// down for the cleanup of single flows (contract, "Single mirror flows").
const UnsettledLimit = 60 * time.Second

// Settlement follows the polls of one peer and says whether its inventory can
// be trusted to name everything the peer has. It is a value: Poll gives the
// next one.
type Settlement struct {
	bootID         string
	settled        bool
	unsettledSince time.Time
}

// Poll takes the result of one poll: whether the peer was up (info and
// inventory both answered), the boot id it gave and whether its inventory comes
// from a finished scan.
func (s Settlement) Poll(up bool, bootID string, scanned bool, now time.Time) Settlement {
	if !up {
		return Settlement{}
	}
	next := Settlement{bootID: bootID, unsettledSince: s.unsettledSince}
	next.settled = scanned && bootID != "" && s.bootID == bootID
	switch {
	case next.settled:
		next.unsettledSince = time.Time{}
	case next.unsettledSince.IsZero():
		next.unsettledSince = now
	}
	return next
}

// Settled says whether two polls in a row found the peer up with one boot id
// and the last inventory was of a finished scan.
func (s Settlement) Settled() bool { return s.settled }

// CountsAsDown says whether the peer has been unsettled for too long to wait
// for it.
func (s Settlement) CountsAsDown(now time.Time) bool {
	return !s.settled && !s.unsettledSince.IsZero() && now.Sub(s.unsettledSince) > UnsettledLimit
}

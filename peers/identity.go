package peers

import "fmt"

// identityDoubt says what is wrong with the host id in a peer's /info; empty when
// nothing is. expected is the id it is listed under, self and selfBoot are our
// own. The peer is used all the same: an original never looks at that id, and a
// mesh that runs with a misspelt one goes on running.
func identityDoubt(expected, self, selfBoot string, info Info) string {
	switch {
	case info.HostID == "" || info.HostID == expected:
		return ""
	case info.BootID != "" && info.BootID == selfBoot:
		return "its control url leads to this agent itself"
	case info.HostID == self:
		return fmt.Sprintf("it answers with this host's own HOST_ID %q: every agent needs one of its own", info.HostID)
	}
	return fmt.Sprintf("it answers as %q", info.HostID)
}

// tellIdentity logs a doubt when it begins, changes or ends.
func (t *Table) tellIdentity(before, after Peer) {
	switch {
	case after.Warning == before.Warning:
	case after.Warning == "":
		t.cfg.Log.Info("peer_host_id_agrees", "peer", after.HostID, "control_url", after.ControlURL)
	default:
		t.cfg.Log.Warn("peer_host_id_differs", "peer", after.HostID, "host_id", after.Info.HostID, "control_url", after.ControlURL, "error", after.Warning)
	}
}

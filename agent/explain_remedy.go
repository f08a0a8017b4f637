package agent

import (
	"strings"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// cause pairs a piece of an error text with what to do.
type cause struct{ text, remedy string }

func remedyIn(list []cause, text, otherwise string) string {
	for _, c := range list {
		if strings.Contains(text, c.text) {
			return c.remedy
		}
	}
	return otherwise
}

// peerRemedy goes by the error words of a poll (agent API reference §1.2).
func peerRemedy(word string) string {
	return remedyIn([]cause{
		{"no control url", "Give the peer a control_url in PEERS, or have its agent register with the registry."},
		{"bad url", "Correct control_url in PEERS: http://<host>:<port>/api/v1."},
		{"dns", "The name in control_url does not resolve on this host: correct it, or use an address."},
		{"connect", "Start its agent, and check its WEB_PORT and any firewall between the hosts."},
		{"http 404", "control_url has to end in /api/v1."},
		{"http 503", "It has not finished its first scan: wait."},
		{"send", "The host accepts connections and does not answer within 2 s: look at its load and its log."},
		{"recv", "The host accepts connections and does not answer within 2 s: look at its load and its log."},
		{"too large", "Its inventory is over 8 MiB: use fewer flows, or shorter definitions."},
	}, word, "Look at the log of its agent.")
}

func linkRemedy(reason string) string {
	return remedyIn([]cause{
		{"no carrier", "Check cable, switch port and `ip link` of that device."},
		{"no local interface has", "Correct local_fabric_addr in PEERS or FABRIC_INTERFACE, or bring the address up."},
		{"no local fabric address", "Set FABRIC_INTERFACE, or local_fabric_addr in the peer's entry in PEERS."},
	}, reason, "See link_error in /api/v1/peers on both hosts.")
}

// laneRemedy goes by what the lanes and the handshake say; an error of the source
// arrives as "http <status>: <its reason>", or as its own text.
func laneRemedy(text string) string {
	return remedyIn([]cause{
		{"domain not local", "The source does not have the domain any more: look at its inventory."},
		{"has no interface", "The local fabric address is of no device of that provider: correct FABRIC_INTERFACE or local_fabric_addr, or use DEFAULT_PROVIDER=tcp or PROVIDER_FALLBACK=tcp."},
		{"ports from", "Raise FABRIC_PORT_COUNT."},
		{"target_info: provider", "Both ends have to use the same provider: DEFAULT_PROVIDER, provider in PEERS, PROVIDER_FALLBACK on both."},
		{"provider:", "Both ends have to use the same provider: DEFAULT_PROVIDER, provider in PEERS, PROVIDER_FALLBACK on both."},
		{"too many open files", "Raise the limit of open files (nofile)."},
		{"cannot allocate memory", "Raise memlock (verbs) or vm.max_map_count."},
		{"refused", "Open the destination's fabric ports (FABRIC_PORT_BASE…) to the source, and check both fabric addresses."},
		{"handshake took longer", "Open the destination's fabric ports to the source, and check that the MTU is the same along the link."},
		{"no transfer completed", "The connection stands and nothing gets through: compare the MTU along the link, and look at the destination's load."},
		{"re-created", "The origin's files were replaced: the lane waits for the new ones."},
		{"deleted", "The origin's files are gone: start its writer again."},
		{"nobody writes", "Start the writer of the origin."},
		{"another geometry", "The mirror is rebuilt when the new definition is seen: wait a few seconds."},
		{"connect", "The source's control API does not answer: start its agent, check WEB_PORT and firewalls."},
		{"http 5", "The source could not set up its end: the text is its reason, and its log has more."},
	}, text, "Explain the flow on the other host too, and see troubleshooting.md.")
}

func mirrorRemedy(text string) string {
	return remedyIn([]cause{
		{mirror.ErrForeign.Error(), "Move the directory away: another agent, or another HOST_ID of this one, made it."},
		{mirror.ErrNoSpace.Error(), "Enlarge the tmpfs, exclude flows that are not needed, or lower TMPFS_RESERVE_MB."},
		{"no space", "Enlarge the tmpfs, or remove what is not needed."},
		{"permission denied", "The agent needs to write below the MXL root: same user as the media functions, or a mode that lets it."},
		{"read-only", "Mount the MXL root read-write."},
		{"too many open files", "Raise the limit of open files (nofile)."},
		{"cannot allocate memory", "Raise vm.max_map_count."},
	}, text, "See mirror_writer_failed in the log.")
}

func staleRemedy(reason, host string) string {
	switch reason {
	case mirror.PeerIsDown:
		return "Bring the agent on " + host + " back; the replication resumes by itself."
	case mirror.LinkIsDown:
		return "Bring the fabric link back; the replication resumes by itself."
	}
	return "The origin goes on and nothing arrives: see last_error in /api/v1/replications on both hosts."
}

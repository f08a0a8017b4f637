package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// explainDestination walks the chain of a flow that is written on another host.
func (f *explainFacts) explainDestination(c *chain) {
	f.explainReceiver(c)
	host := f.explainOrigin(c)
	if host == "" {
		c.open(stepPeer, "No host is known to have the flow.")
		c.open(stepLink, "No host is known to have the flow.")
	} else {
		f.explainPeer(c, host)
		f.explainLink(c, host)
	}
	f.explainPull(c)
	f.explainMirror(c, host)
}

// explainReceiver says whether a receiver of this host is there, and whether it
// is connected to the flow.
func (f *explainFacts) explainReceiver(c *chain) {
	var local []nmos.Receiver
	for _, r := range f.Receivers {
		if r.Local {
			local = append(local, r)
		}
	}
	unread := "No receiver of this host is known."
	switch {
	case f.NMOSOff:
		c.bad(stepReceiver, "Set NMOS_ENABLE=true and NMOS_REGISTRY_ADDRESS.", "NMOS is off: nobody on this host can ask for a flow.")
		c.open(stepConnection, "%s", unread)
		return
	case len(local) == 0 && f.RegistryError != "":
		c.bad(stepReceiver, "Bring the registry back, or correct NMOS_REGISTRY_ADDRESS, NMOS_QUERY_ADDRESS and their ports.",
			"The registry does not answer (%s), so no receivers are known.", f.RegistryError)
		c.open(stepConnection, "%s", unread)
		return
	case len(f.Receivers) == 0:
		c.bad(stepReceiver, "The media function has to register a receiver with transport "+nmos.TransportMXL+".", "The registry lists no MXL receiver at all.")
		c.open(stepConnection, "%s", unread)
		return
	case len(local) == 0:
		c.bad(stepReceiver, "If one of them runs here, name its node in LOCAL_NODE_IDS or LOCAL_NODE_HOSTNAMES, or its network in LOCAL_NODE_CIDRS.",
			"The registry lists %s, none on a node that counts as this host's.", count(len(f.Receivers), "MXL receiver"))
		c.open(stepConnection, "%s", unread)
		return
	}
	var wanting, off []string
	unset, other, unknown := 0, 0, []string{}
	for _, r := range local {
		switch {
		case !r.ActiveKnown:
			unknown = append(unknown, r.Label)
		case r.DomainID == "" || r.FlowID == "":
			unset++
		case !sameID(r.DomainID, f.Key.DomainID) || !sameID(r.FlowID, f.Key.FlowID.String()):
			other++
		case !r.MasterEnable:
			off = append(off, r.Label)
		default:
			wanting = append(wanting, r.Label)
		}
	}
	c.good(stepReceiver, "%s on this host.", count(len(local), "MXL receiver"))
	const unconnected = "No receiver on this host is connected to this flow: "
	activate := "If it should be here, activate the receiver over IS-05 with master_enable true, mxl_domain_id and mxl_flow_id."
	switch {
	case len(wanting) > 0:
		c.good(stepConnection, "Connected to this flow: %s.", fewOf(wanting))
	case len(off) > 0:
		c.unwanted(stepConnection, activate, unconnected+"%s has these ids, but its master_enable is false.", fewOf(off))
	case len(unknown) > 0:
		c.bad(stepConnection, "See nmos_active_unavailable in the log: the node's IS-05 API has to answer.", "The active connection of %s cannot be read.", fewOf(unknown))
	case other == 0:
		c.unwanted(stepConnection, activate, unconnected+"the mxl_domain_id or mxl_flow_id of each is unset.")
	default:
		c.unwanted(stepConnection, activate, unconnected+"%d to others, %d to none.", other, unset)
	}
}

// explainOrigin says who has the flow and whether it is written, and gives the
// host.
func (f *explainFacts) explainOrigin(c *chain) (host string) {
	if o, have := f.Plan.offer(f.Key); have {
		f.explainOffer(c, o)
		return o.Source
	}
	now := f.Plan.Facts.Now
	// A peer that does not answer may still have it.
	for i := range f.Peers {
		p := &f.Peers[i]
		if !p.Up && p.Inventory != nil && inventoryFlowOf(p.Inventory, f.Key) != nil {
			c.good(stepOrigin, "%s listed the flow when it last answered, %s.", p.HostID, ago(now, p.ReceivedAt))
			return p.HostID
		}
	}
	if host, reason := f.refused(); host != "" {
		c.bad(stepOrigin, "Correct what the reason names on "+host+".", "%s has it and cannot offer it: %s.", host, reason)
		return host
	}
	up := 0
	for i := range f.Peers {
		p := &f.Peers[i]
		inv := p.Offers()
		if inv == nil {
			continue
		}
		up++
		for j := range inv.Domains {
			if sameID(inv.Domains[j].ID, f.Key.DomainID) {
				c.bad(stepOrigin, "The controller's ids are old, or the writer is gone: connect the receiver again, or start the writer.",
					"stale_reference: %s lists the domain with %s, and not this one.", p.HostID, count(len(inv.Domains[j].Flows), "flow"))
				return p.HostID
			}
		}
	}
	remedy := "Check the domain id, and that the host that has the domain runs an agent which this one knows (/api/v1/peers)."
	for i := range f.Peers {
		if p := &f.Peers[i]; p.Up && p.Warning != "" {
			remedy = "Correct PEERS first: " + p.HostID + " is another agent than expected, " + p.Warning + "."
			break
		}
	}
	if len(f.Peers) == 0 {
		remedy = "Configure PEERS, or a registry with which the other agents are registered."
	}
	var down []string
	for i := range f.Peers {
		if p := &f.Peers[i]; !p.Up {
			down = append(down, p.HostID+" ("+orNothing(p.Error)+")")
			remedy = "It may be on a host that does not answer. " + peerRemedy(p.Error)
		}
	}
	silent := ""
	if len(down) > 0 {
		silent = ", not " + fewOf(down)
	}
	c.bad(stepOrigin, remedy, "unresolved: no peer that answers lists the domain; %d of %d answer%s.", up, len(f.Peers), silent)
	return ""
}

func (f *explainFacts) explainOffer(c *chain, o offer) {
	also := ""
	if conflict := f.conflict(); conflict != "" {
		also = "; several hosts have it (" + conflict + ")"
	}
	now := f.Plan.Facts.Now
	switch {
	case !o.Flow.Active:
		c.bad(stepOrigin, "Start its writer on "+o.Source+".", "%s lists the flow, but no writer holds it%s.", o.Source, also)
	case !o.Flow.Live:
		remedy := "Check the signal of the function that writes it, and the clock of " + o.Source + " (chrony or PTP, TAI offset)."
		head := "it has no grain yet"
		if o.Flow.HeadIndex != nil {
			rate := mxl.Rational{Numerator: o.Flow.GrainRate.Numerator, Denominator: o.Flow.GrainRate.Denominator}
			head = headAge(*o.Flow.HeadIndex, rate, f.Plan.Facts.TAI)
		}
		c.bad(stepOrigin, remedy, "A writer on %s holds the flow and writes nothing now: %s%s.", o.Source, head, also)
	default:
		c.good(stepOrigin, "%s writes the flow (%s), seen %s%s.", o.Source, o.Flow.MediaType, ago(now, f.peerHeard(o.Source)), also)
	}
}

// headAge says how far a head is from now.
func headAge(head uint64, rate mxl.Rational, tai uint64) string {
	if head == 0 || head == mxl.UndefinedIndex {
		return "it has no grain yet"
	}
	if !rate.Valid() {
		return fmt.Sprintf("its head %d is not within 5 s of TAI", head)
	}
	off := time.Duration(tai - rate.TimeOf(head)).Round(100 * time.Millisecond)
	if off < 0 {
		return fmt.Sprintf("its head %d is %v in the future", head, -off)
	}
	return fmt.Sprintf("its head %d is %v old", head, off)
}

func (f *explainFacts) peerHeard(host string) time.Time {
	if p := f.peer(host); p != nil {
		return p.ReceivedAt
	}
	return time.Time{}
}

func (f *explainFacts) conflict() string {
	for _, conflict := range f.Plan.Demand.Conflicts {
		if conflict.Key == nmos.NewFlowKey(f.Key.DomainID, f.Key.FlowID.String()) {
			return conflict.Hosts
		}
	}
	return ""
}

// refused names a peer that has the flow or its domain and cannot offer it.
func (f *explainFacts) refused() (host, reason string) {
	flow := f.Key.FlowID.String()
	for i := range f.Peers {
		inv := f.Peers[i].Offers()
		if inv == nil {
			continue
		}
		for _, problem := range inv.Problems {
			if sameID(problem.FlowID, flow) || problem.FlowID == "" && sameID(problem.DomainID, f.Key.DomainID) {
				return f.Peers[i].HostID, problem.Reason
			}
		}
		for j := range inv.Domains {
			if !sameID(inv.Domains[j].ID, f.Key.DomainID) {
				continue
			}
			for _, u := range inv.Domains[j].NotReplicable {
				if sameID(u.Name, flow+mxlFlowSuffix) || sameID(u.Name, flow) {
					return f.Peers[i].HostID, u.Reason
				}
			}
		}
	}
	return "", ""
}

// inventoryFlowOf finds a flow whatever the case of its ids.
func inventoryFlowOf(inv *peers.Inventory, k mirror.Key) *peers.Flow {
	for i := range inv.Domains {
		if !sameID(inv.Domains[i].ID, k.DomainID) {
			continue
		}
		for j := range inv.Domains[i].Flows {
			if fl := &inv.Domains[i].Flows[j]; sameID(fl.ID, k.FlowID.String()) {
				return fl
			}
		}
	}
	return nil
}

// explainPull says how the replication of the flow to this host goes.
func (f *explainFacts) explainPull(c *chain) {
	if len(f.Pulls) == 0 {
		c.open(stepLane, "No replication is held.")
		return
	}
	// While the origin moves to another host there are two; the one that does
	// best tells.
	v := f.Pulls[0]
	for _, other := range f.Pulls[1:] {
		if v.State != stateActive && other.State == stateActive {
			v = other
		}
	}
	moved := fmt.Sprintf("%d grains or transfers, %d restarts", v.Grains, v.Restarts)
	peer := f.peer(v.Key.Peer)
	o, offered := f.Plan.offer(f.Key)
	written := offered && o.Flow.Live
	switch {
	case v.State == stateLinkDown:
		c.follows(0, stepLane, linkRemedy(v.Error), "A fabric link is down: %s.", orNothing(v.Error))
	case peer == nil || !peer.Up:
		c.open(stepLane, "The last that was known of the replication from %s over %s: %s, %s.", v.Key.Peer, v.Provider, v.State, moved)
	case v.State == stateError:
		c.follows(0, stepLane, pullRemedy(v.Key.Peer, v.Error), "Replication from %s over %s failed: %s.", v.Key.Peer, v.Provider, orNothing(v.Error))
	case v.State == stateActive && written:
		c.good(stepLane, "Replication from %s over %s is active%s: %s.", v.Key.Peer, v.Provider, map[bool]string{true: " (fallback)"}[v.Fallback], moved)
	case !v.HasLane:
		c.follows(0, stepLane, "It is being set up: look again in a second.", "Replication from %s has no target yet.", v.Key.Peer)
	case !v.Stats.Connected:
		c.follows(0, stepLane, "Look again in a second; then see last_error in /api/v1/replications on "+v.Key.Peer+", and that it reaches this host's fabric ports.",
			"The target is open and %s has not connected to it yet.", v.Key.Peer)
	case !written:
		c.open(stepLane, "The connection from %s over %s stands, and nothing moves: the origin is not being written. So far %s.", v.Key.Peer, v.Provider, moved)
	default:
		c.follows(0, stepLane, "Look again in a second; then explain the flow on "+v.Key.Peer+".", "%s is connected and no grain has come yet.", v.Key.Peer)
	}
}

// pullRemedy is laneRemedy for what a source answered: the cause is on that host.
func pullRemedy(host, text string) string {
	remedy := laneRemedy(text)
	if strings.HasPrefix(text, "http ") {
		return "On " + host + ": " + remedy
	}
	return remedy
}

// explainMirror says whether the mirror is there and alive.
func (f *explainFacts) explainMirror(c *chain, host string) {
	step := f.Plan.Outcome.Flow(f.Key)
	facts := f.Plan.Facts
	switch {
	case facts.Foreign[f.Key.DomainID]:
		c.bad(stepMirror, "Move the directory away, or correct HOST_ID: another agent, or another HOST_ID of this one, made it.",
			"mirror-%s exists below the MXL root and is not this agent's.", f.Key.DomainID)
	case facts.Filter.Excludes(f.Key):
		c.bad(stepMirror, "Change MIRROR_EXCLUDE_DOMAINS, MIRROR_EXCLUDE_FLOWS, MIRROR_INCLUDE_DOMAINS or MIRROR_INCLUDE_FLOWS.",
			"The filter of this host excludes the flow.")
	case step != nil && step.State == mirror.FlowNoSpace:
		need, _ := facts.Offer(f.Key)
		c.bad(stepMirror, "Enlarge the tmpfs, exclude flows that are not needed, or lower TMPFS_RESERVE_MB.",
			"insufficient_space: the mirror needs %d MiB, %d MiB are free, and %d MiB have to stay free.", mib(need.NeedBytes), mib(facts.FreeBytes), facts.ReserveMB)
	case f.MirrorError != "" && (step == nil || !step.OnDisk):
		c.bad(stepMirror, mirrorRemedy(f.MirrorError), "The mirror cannot be made: %s.", f.MirrorError)
	case step == nil || !step.OnDisk:
		f.explainAbsent(c, step)
	default:
		f.explainHealth(c, step, host)
	}
}

func (f *explainFacts) explainAbsent(c *chain, step *mirror.FlowStep) {
	switch {
	case step != nil && step.Do == mirror.Ensure:
		c.follows(0, stepMirror, "Look again in a second.", "The mirror is being made.")
	case step != nil && step.Rebuilds.Gone() != "":
		c.open(stepMirror, "There is no mirror: it was removed (%s).", step.Rebuilds.Gone())
	default:
		c.open(stepMirror, "There is no mirror, and none is to be made yet.")
	}
}

func (f *explainFacts) explainHealth(c *chain, step *mirror.FlowStep, host string) {
	h := step.Health
	age := "no grain yet"
	if h.HasGrain {
		age = "newest grain " + h.GrainAge.Round(time.Millisecond).String() + " old"
	}
	switch h.State {
	case mirror.HealthLive:
		late, limit := f.lateness()
		if limit > 0 && late > limit {
			c.bad(stepMirror, "Readers at the edge miss grains: check the link's rate and loss, the load of both hosts, and that their clocks agree.",
				"The mirror is live but %v behind TAI, more than half of its ring (%v).", late.Round(time.Millisecond), limit.Round(time.Millisecond))
			return
		}
		c.good(stepMirror, "The mirror is live, %s.", age)
	case mirror.HealthPending:
		c.follows(0, stepMirror, "Look again after MIRROR_STALE_MS.", "The mirror waits for its first new grain, %s.", age)
	case mirror.HealthStale:
		c.bad(stepMirror, staleRemedy(h.Reason, host), "The mirror is stale (%s) since %s, %s.", h.Reason, h.StaleSince.UTC().Format(time.RFC3339), age)
	default:
		// Idle is no fault of the mirror: what it waits for is a step before.
		c.open(stepMirror, "The mirror is there and idle (%s), %s.", h.Reason, age)
	}
}

// lateness is the lag of the flow and the most that its ring can take: half of
// its length, and never below 100 ms.
func (f *explainFacts) lateness() (late, limit time.Duration) {
	o, have := f.Plan.offer(f.Key)
	if !have || o.Flow.GrainRate.Numerator <= 0 || o.Flow.RingDepth == 0 {
		return 0, 0
	}
	for _, v := range f.Pulls {
		late = max(late, time.Duration(f.Lag[v.Key].MS*float64(time.Millisecond)))
	}
	ring := float64(o.Flow.RingDepth) * float64(o.Flow.GrainRate.Denominator) / float64(o.Flow.GrainRate.Numerator)
	return late, max(100*time.Millisecond, time.Duration(ring/2*float64(time.Second)))
}

func mib(bytes uint64) uint64 { return bytes >> 20 }

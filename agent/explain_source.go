package agent

import (
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// mxlFlowSuffix ends the name of a flow's directory.
const mxlFlowSuffix = mxl.FlowSuffix

// explainSource walks the chain of a flow of this host: the origin, who asks for
// it, and how each of them is served.
func (f *explainFacts) explainSource(c *chain) {
	f.explainLocalFlow(c)
	if len(f.Sends) == 0 {
		up, down := []string{}, []string{}
		for i := range f.Peers {
			if f.Peers[i].Up {
				up = append(up, f.Peers[i].HostID)
			} else {
				down = append(down, f.Peers[i].HostID)
			}
		}
		what := "Nobody asks for this flow: no agent of another host wants it here now"
		if len(up) > 0 {
			what += "; known and answering: " + fewOf(up)
		}
		if len(down) > 0 {
			what += "; not answering: " + fewOf(down)
		}
		if len(up)+len(down) == 0 {
			what += ", and no other agent is known"
		}
		c.unwanted(stepDemand, "Readers of this host need no replication. Explain the flow on the host whose receiver should get it.", "%s.", what)
		return
	}
	dests := make([]string, len(f.Sends))
	for i, v := range f.Sends {
		dests[i] = v.Dest
	}
	c.good(stepDemand, "Asked for by %s.", fewOf(dests))
	for _, v := range f.Sends {
		from := len(c.steps)
		f.explainPeer(c, v.Dest)
		f.explainLink(c, v.Dest)
		f.explainSend(c, v, from)
		for i := from; i < len(c.steps); i++ {
			c.steps[i].Peer = v.Dest
		}
	}
}

func (f *explainFacts) explainLocalFlow(c *chain) {
	flow := f.Local.Flow(f.Key.FlowID)
	switch {
	case flow == nil:
		c.bad(stepOrigin, "Check the flow id, and that the writer is running.", "The domain is on this host (%s) with %s, and not this one.", f.Local.Path, count(len(f.Local.Flows), "flow"))
	case !flow.Replicable():
		c.bad(stepOrigin, "Correct what the reason names; the function that writes the flow made these files.", "The flow is on this host and cannot be replicated: %s.", flow.Reason)
	case !flow.Active:
		c.bad(stepOrigin, "Start its writer.", "The flow is on this host and no writer holds it.")
	case !flow.Live:
		c.bad(stepOrigin, "Check the signal of the function that writes it, and this host's clock (chrony or PTP, TAI offset).",
			"A writer holds the flow and writes nothing now: %s.", headAge(flow.HeadIndex, flow.Rate, f.Plan.Facts.TAI))
	default:
		c.good(stepOrigin, "The flow is on this host (%s) and is being written.", f.Local.Path)
	}
}

// explainSend says how one destination is served; its steps begin at from.
func (f *explainFacts) explainSend(c *chain, v sourceView, from int) {
	moved := fmt.Sprintf("%d grains or transfers, %d unwritten indexes passed over", max(v.Target.Grains, v.Target.Transfers), v.OriginGaps)
	flow := f.Local.Flow(f.Key.FlowID)
	written := flow != nil && flow.Active && flow.Live
	switch {
	case v.State == stateActive && written:
		c.good(stepLane, "Sent to %s over %s: %s.", v.Dest, v.Provider, moved)
	case v.State == stateLinkDown:
		c.follows(from, stepLane, linkRemedy(v.Error), "Not sent to %s, the fabric link is down: %s.", v.Dest, orNothing(v.Error))
	case v.State == stateError:
		c.follows(from, stepLane, laneRemedy(v.Error), "Not sent to %s: %s.", v.Dest, orNothing(v.Error))
	case !written:
		c.open(stepLane, "%s is served over %s, and nothing is sent: the flow is not being written. So far %s.", v.Dest, v.Provider, moved)
	case v.State == stateIdle:
		c.follows(from, stepLane, "Look again in a second; the destination asks again.", "%s asked, and its target is not open at the moment.", v.Dest)
	default:
		c.follows(from, stepLane, "Look again in a second; then check that "+v.Dest+"'s fabric ports can be reached from here.", "The connection to %s is not made yet, or nothing has been written since: %s.", v.Dest, moved)
	}
}

package agent

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
	"github.com/mxl-stack/mxl-fabrics-agent/nmos"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// A planner that has seen passes before plans as one that has not.
func TestPlannerForgetsNothingAndKeepsNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	flows := make([]string, 6)
	for i := range flows {
		flows[i] = uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d", i)).String()
	}
	hosts := []string{"a", "b", "c"}
	list := func(host string) *peers.Inventory {
		inv := &peers.Inventory{HostID: host, Revision: random.Uint64()}
		for _, id := range []string{domA, "other", "OTHER"} {
			d := peers.Domain{ID: id, Options: []byte("{}")}
			for _, f := range flows {
				if random.IntN(2) == 0 {
					d.Flows = append(d.Flows, flowOf(f, random.IntN(3) > 0, random.IntN(2) == 0))
				}
			}
			if random.IntN(2) == 0 {
				inv.Domains = append(inv.Domains, d)
			}
		}
		return inv
	}
	var f passFacts
	for i, h := range hosts {
		f.Peers = append(f.Peers, peerWith(h, true))
		f.Peers[i].Inventory = list(h)
	}
	p := newPlanner()
	var chosen map[nmos.FlowKey]string
	for step := range 3000 {
		f.Now = t0.Add(time.Duration(step) * passEvery)
		f.Peers = slices.Clone(f.Peers)
		peer := &f.Peers[random.IntN(len(f.Peers))]
		switch random.IntN(9) {
		case 0:
			peer.Up = !peer.Up
		case 1:
			peer.Inventory = list(peer.HostID)
		case 2, 3, 4: // another poll, other heads
			inv := *peer.Inventory
			inv.Domains = slices.Clone(inv.Domains)
			for d := range inv.Domains {
				inv.Domains[d].Flows = slices.Clone(inv.Domains[d].Flows)
				for j := range inv.Domains[d].Flows {
					head := uint64(step)
					inv.Domains[d].Flows[j].HeadIndex = &head
				}
			}
			peer.Inventory, peer.ReceivedAt = &inv, f.Now
		case 5:
			f.Receivers = []nmos.Receiver{wants(domA, flows[random.IntN(len(flows))]), wants("other", flows[0])}
		case 6:
			f.LocalDomains = [][]string{nil, {"other"}}[random.IntN(2)]
		case 7:
			key := mirror.Key{DomainID: []string{domA, "OTHER"}[random.IntN(2)], FlowID: uuid.MustParse(flows[random.IntN(len(flows))])}
			f.OnDisk = []mirror.DomainOnDisk{{DomainID: key.DomainID, Flows: []mirror.FlowOnDisk{{Key: key, Inode: uint64(random.IntN(2))}}}}
		}
		got, want := p.plan(f), makePlan(f, chosen)
		if !reflect.DeepEqual(got.offers, want.offers) || !reflect.DeepEqual(got.index, want.index) || !reflect.DeepEqual(got.Chosen, want.Chosen) ||
			!reflect.DeepEqual(got.Demand, want.Demand) || !reflect.DeepEqual(got.Facts, want.Facts) {
			t.Fatalf("step %d: the planner gives\n%+v\nand one without a past\n%+v", step, got, want)
		}
		chosen = got.Chosen
	}
}

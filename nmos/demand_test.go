package nmos

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	domA, domB, domC = "aaaaaaaa-0000-4000-8000-000000000000", "bbbbbbbb-0000-4000-8000-000000000000", "cccccccc-0000-4000-8000-000000000000"
	flA, flB         = "0000000a-0000-4000-8000-000000000000", "0000000b-0000-4000-8000-000000000000"
)

func peer(host string, domain string, flows ...PeerFlow) PeerInventory {
	return PeerInventory{HostID: host, Domains: []PeerDomain{{ID: domain, Flows: flows}}}
}

func TestChooseOrigins(t *testing.T) {
	live, held, rest := PeerFlow{ID: flA, Live: true, Active: true}, PeerFlow{ID: flA, Active: true}, PeerFlow{ID: flA}
	key := FlowKey{domA, flA}
	for name, c := range map[string]struct {
		peers     []PeerInventory
		current   string
		want      string
		conflicts string
	}{
		"nobody":                        {nil, "", "", ""},
		"one":                           {[]PeerInventory{peer("b", domA, rest)}, "", "b", ""},
		"live before held":              {[]PeerInventory{peer("a", domA, held), peer("b", domA, live)}, "a", "b", "a(writer),b(live)"},
		"held before the rest":          {[]PeerInventory{peer("a", domA, rest), peer("b", domA, held)}, "a", "b", "a,b(writer)"},
		"live before the rest":          {[]PeerInventory{peer("b", domA, live), peer("a", domA, rest)}, "a", "b", "a,b(live)"},
		"the current one among equals":  {[]PeerInventory{peer("a", domA, live), peer("b", domA, live), peer("c", domA, live)}, "b", "b", "a(live),b(live),c(live)"},
		"lowest host id among equals":   {[]PeerInventory{peer("c", domA, live), peer("b", domA, live)}, "", "b", "b(live),c(live)"},
		"a current one that went away":  {[]PeerInventory{peer("c", domA, rest), peer("b", domA, rest)}, "a", "b", "b,c"},
		"upper case ids are the same":   {[]PeerInventory{peer("b", "AAAAAAAA-0000-4000-8000-000000000000", live), peer("a", domA, held)}, "", "b", "a(writer),b(live)"},
		"one host listing a flow twice": {[]PeerInventory{peer("a", domA, rest, live)}, "", "a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			origins, conflicts := ChooseOrigins(c.peers, map[FlowKey]string{key: c.current})
			if got := origins[key].HostID; got != c.want {
				t.Errorf("chose %q, want %q", got, c.want)
			}
			var hosts string
			if len(conflicts) > 0 {
				hosts = conflicts[0].Hosts
				if conflicts[0].Key != key || conflicts[0].Chosen != c.want || key.String() != domA+"/"+flA {
					t.Errorf("conflict %+v", conflicts[0])
				}
			}
			if hosts != c.conflicts {
				t.Errorf("conflict %q, want %q", hosts, c.conflicts)
			}
		})
	}
}

func TestComputeDemand(t *testing.T) {
	wants := func(id, domain, flow string) Receiver {
		return Receiver{ID: id, Local: true, ActiveKnown: true, MasterEnable: true, DomainID: domain, FlowID: flow}
	}
	peers := []PeerInventory{peer("b", domA, PeerFlow{ID: flA, Live: true}), peer("c", domC, PeerFlow{ID: flA}), {HostID: "d"}}
	disabled, remote := wants("r", domA, flA), wants("r", domA, flA)
	disabled.MasterEnable, remote.Local = false, false
	for name, c := range map[string]struct {
		receivers []Receiver
		want      []DemandEntry
		states    []State
	}{
		"nothing":                     {nil, nil, nil},
		"replicating":                 {[]Receiver{wants("r", domA, flA)}, []DemandEntry{{FlowKey{domA, flA}, StateReplicating, "b", []string{"r"}}}, []State{StateReplicating}},
		"no peer lists the domain":    {[]Receiver{wants("r", domB, flA)}, []DemandEntry{{FlowKey{domB, flA}, StateUnresolved, "", []string{"r"}}}, []State{StateUnresolved}},
		"the domain without the flow": {[]Receiver{wants("r", domA, flB)}, []DemandEntry{{FlowKey{domA, flB}, StateStaleReference, "", []string{"r"}}}, []State{StateStaleReference}},
		"a domain of this host":       {[]Receiver{wants("r", "ffffffff-0000-4000-8000-000000000000", flA)}, nil, []State{StateLocal}},
		"disabled":                    {[]Receiver{disabled}, nil, []State{StateLocal}},
		"no flow":                     {[]Receiver{wants("r", domA, "")}, nil, []State{StateLocal}},
		"no domain":                   {[]Receiver{wants("r", "", flA)}, nil, []State{StateLocal}},
		"a receiver elsewhere":        {[]Receiver{remote}, nil, nil},
		"two receivers share one": {
			[]Receiver{wants("r2", domA, flA), wants("r1", "AAAAAAAA-0000-4000-8000-000000000000", flA)},
			[]DemandEntry{{FlowKey{domA, flA}, StateReplicating, "b", []string{"r1", "r2"}}},
			[]State{StateReplicating, StateReplicating},
		},
		"sorted": {
			[]Receiver{wants("r1", domC, flA), wants("r2", domB, flB), wants("r3", domB, flA)},
			[]DemandEntry{
				{FlowKey{domB, flA}, StateUnresolved, "", []string{"r3"}},
				{FlowKey{domB, flB}, StateUnresolved, "", []string{"r2"}},
				{FlowKey{domC, flA}, StateReplicating, "c", []string{"r1"}},
			},
			[]State{StateReplicating, StateUnresolved, StateUnresolved},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := ComputeDemand(DemandFacts{
				Receivers: c.receivers, Peers: peers,
				LocalDomains: []string{"FFFFFFFF-0000-4000-8000-000000000000"},
			})
			if diff := cmp.Diff(c.want, d.Entries); diff != "" {
				t.Errorf("entries: %s", diff)
			}
			var states []State
			for _, r := range d.Receivers {
				states = append(states, r.State)
				if (r.State == StateReplicating) != (r.SourceHost != "") {
					t.Errorf("receiver %+v", r)
				}
			}
			if diff := cmp.Diff(c.states, states); diff != "" {
				t.Errorf("states: %s", diff)
			}
		})
	}
}

// The flow's domain moved here: the replication ends although a peer lists it.
func TestComputeDemandOwnDomainWins(t *testing.T) {
	d := ComputeDemand(DemandFacts{
		Receivers:    []Receiver{{ID: "r", Local: true, MasterEnable: true, DomainID: domA, FlowID: flA}},
		LocalDomains: []string{domA},
		Peers:        []PeerInventory{peer("b", domA, PeerFlow{ID: flA, Live: true})},
	})
	if len(d.Entries) != 0 || d.Receivers[0].State != StateLocal {
		t.Errorf("%+v", d)
	}
}

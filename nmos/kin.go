package nmos

// kin is who belongs to whom among the entries of a view, so that a change of one is
// looked up and not searched for.
type kin struct {
	devices   map[string]map[string]bool // of a node
	receivers map[string]map[string]bool // of a device; MXL receivers only
	agents    map[string]bool            // nodes that announce an agent
}

func newKin() kin {
	return kin{devices: map[string]map[string]bool{}, receivers: map[string]map[string]bool{}, agents: map[string]bool{}}
}

// under gives the list that a resource is in, and the id of whose list it is; the
// list's map is nil when it is in none.
func (x kin) under(k kind, r resource) (lists map[string]map[string]bool, of string) {
	switch {
	case k == kindDevice && r.device != nil:
		return x.devices, r.device.nodeID
	case k == kindReceiver && r.receiver != nil && r.receiver.mxl:
		return x.receivers, r.receiver.deviceID
	}
	return nil, ""
}

func (x kin) add(k kind, r resource) {
	if k == kindNode && r.node != nil && r.node.control != "" {
		x.agents[r.id] = true
	}
	lists, of := x.under(k, r)
	if lists == nil {
		return
	}
	if lists[of] == nil {
		lists[of] = map[string]bool{}
	}
	lists[of][r.id] = true
}

func (x kin) drop(k kind, r resource) {
	if k == kindNode {
		delete(x.agents, r.id)
	}
	lists, of := x.under(k, r)
	if lists == nil {
		return
	}
	delete(lists[of], r.id)
	if len(lists[of]) == 0 {
		delete(lists, of)
	}
}

// changes is what differs in a view from what was last taken over of it.
type changes struct {
	all    bool // the state of the registry, which every entry shows
	agents bool // of a node that announces an agent, or did
	ids    [kinds]map[string]bool
}

func (c *changes) add(k kind, id string) {
	if c.ids[k] == nil {
		c.ids[k] = map[string]bool{}
	}
	c.ids[k][id] = true
}

func (c *changes) any() bool {
	return c.all || len(c.ids[kindNode])+len(c.ids[kindDevice])+len(c.ids[kindReceiver]) > 0
}

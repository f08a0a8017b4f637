package peers

import (
	"bytes"
	"slices"
	"strconv"
	"sync"
)

const (
	// maxRemembered is the largest inventory, in bytes, that is remembered as it was
	// sent: some dozens of flows. Larger ones are read in full every time.
	maxRemembered = 96 << 10
	// maxRememberedPeers bounds the memory of peers that come and go.
	maxRememberedPeers = 1024
)

// answers remembers the last inventory of each peer. Between two polls hardly
// anything but heads changes, and an answer of which nothing else differs need not
// be read all over: a few comparisons instead of a JSON document with a definition
// in each flow, twice.
type answers struct {
	mu    sync.Mutex
	known map[string]*answered // by control URL
}

// answered is an inventory and the text it was read from. It is never changed.
type answered struct {
	body  []byte
	spots []span // of the head indexes, in the order of the flows that have one
	inv   *Inventory
}

type span struct{ start, end int }

// read gives the inventory of an answer.
func (a *answers) read(controlURL string, body []byte) (*Inventory, error) {
	a.mu.Lock()
	last := a.known[controlURL]
	a.mu.Unlock()
	if last != nil {
		if inv, ok := last.withHeads(body); ok {
			return inv, nil
		}
	}
	inv, err := ParseInventory(body)
	var next *answered
	if err == nil {
		next = rememberable(body, inv)
	}
	if last == nil && next == nil {
		return inv, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known == nil || len(a.known) >= maxRememberedPeers {
		a.known = map[string]*answered{}
	}
	if next == nil {
		delete(a.known, controlURL)
	} else {
		a.known[controlURL] = next
	}
	return inv, err
}

// rememberable finds the heads in an answer, nil when it is not certain which
// number in it is whose.
func rememberable(body []byte, inv *Inventory) *answered {
	if len(body) > maxRemembered || len(inv.Problems) > 0 {
		return nil
	}
	a := &answered{body: bytes.Clone(body), inv: inv}
	key := []byte(`"head_index":`)
	for at := 0; ; {
		next := bytes.Index(body[at:], key)
		if next < 0 {
			break
		}
		at += next + len(key)
		for at < len(body) && (body[at] == ' ' || body[at] == '\t' || body[at] == '\n' || body[at] == '\r') {
			at++
		}
		if n := digits(body[at:]); n > 0 {
			a.spots = append(a.spots, span{at, at + n})
		}
	}
	i := 0
	for d := range inv.Domains {
		if bytes.Contains(inv.Domains[d].Options, key) {
			return nil
		}
		for f := range inv.Domains[d].Flows {
			if bytes.Contains(inv.Domains[d].Flows[f].Def, key) {
				return nil
			}
			head := inv.Domains[d].Flows[f].HeadIndex
			if head == nil {
				continue
			}
			if i == len(a.spots) || string(body[a.spots[i].start:a.spots[i].end]) != strconv.FormatUint(*head, 10) {
				return nil
			}
			i++
		}
	}
	if i != len(a.spots) {
		return nil
	}
	return a
}

// withHeads reads an answer that differs from the remembered one in nothing but
// heads; ok is false for any other.
func (a *answered) withHeads(body []byte) (inv *Inventory, ok bool) {
	heads := make([]uint64, len(a.spots))
	at, from := 0, 0
	for i, s := range a.spots {
		between := a.body[from:s.start]
		if !bytes.HasPrefix(body[at:], between) {
			return nil, false
		}
		at += len(between)
		n := digits(body[at:])
		var err error
		if heads[i], err = strconv.ParseUint(string(body[at:at+n]), 10, 64); err != nil || n > 1 && body[at] == '0' {
			return nil, false
		}
		at, from = at+n, s.end
	}
	if !bytes.Equal(body[at:], a.body[from:]) {
		return nil, false
	}
	next := *a.inv
	next.Domains = slices.Clone(next.Domains)
	for d := range next.Domains {
		flows := slices.Clone(next.Domains[d].Flows)
		for f := range flows {
			if flows[f].HeadIndex != nil {
				flows[f].HeadIndex, heads = &heads[0], heads[1:]
			}
		}
		next.Domains[d].Flows = flows
	}
	return &next, true
}

// digits is how many digits a text begins with.
func digits(text []byte) int {
	for i, c := range text {
		if c < '0' || c > '9' {
			return i
		}
	}
	return len(text)
}

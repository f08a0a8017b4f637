package peers

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	// answerRoom is what an inventory may take, in bytes of JSON, so that every peer
	// reads it: they take 8 MiB with what is around it (agent API reference §1.2).
	answerRoom = maxAnswer - 64<<10
	// maxNoted is how many directories that cannot be used an inventory names, and
	// maxNote how much of each path and reason.
	maxNoted = 500
	maxNote  = 300
)

// Fit makes an inventory one that every peer reads, whatever lies in the MXL root:
// without a bound a few directories could cost every flow of the host its
// replication. Directories that cannot be used are named up to a number. When
// definitions and options need more room than there is, first the definitions' own
// spelling goes (a mirror then has the same JSON in another one), then flows do, and
// say so in NotReplicable: always the largest flow of the domain that needs most,
// so that one domain that grows without bound costs the others nothing. The same
// inventory always loses the same.
func (i *Inventory) Fit() { i.fit(answerRoom, maxRecords) }

func (i *Inventory) fit(room, records int) {
	i.Unusable = few(i.Unusable)
	for d := range i.Domains {
		i.Domains[d].NotReplicable = few(i.Domains[d].NotReplicable)
	}
	i.fewNotes()
	sizes := i.sizes()
	if sizes.total <= room && sizes.records < records {
		return
	}
	for d := range i.Domains {
		for f := range i.Domains[d].Flows {
			i.Domains[d].Flows[f].DefText = ""
		}
	}
	if sizes = i.sizes(); sizes.total <= room && sizes.records < records {
		return
	}
	i.drop(sizes, room, records)
}

// drop leaves flows out, and domains without any left, until the rest fits.
func (i *Inventory) drop(sizes inventorySizes, room, records int) {
	// Smallest first, so that the largest is the last of what is kept.
	for d := range i.Domains {
		slices.SortFunc(i.Domains[d].Flows, func(a, b Flow) int {
			return cmp.Or(cmp.Compare(flowSize(&a), flowSize(&b)), cmp.Compare(a.ID, b.ID))
		})
	}
	notes := maxNoted
	note := func(list []Unusable, u Unusable) []Unusable {
		if notes == 0 {
			return list
		}
		notes--
		sizes.total += noteSize(u)
		sizes.records++
		return append(list, u)
	}
	gone := make([]bool, len(i.Domains))
	for sizes.total > room || sizes.records >= records {
		most := -1
		for d := range i.Domains {
			if !gone[d] && (most < 0 || sizes.domain[d] > sizes.domain[most]) {
				most = d
			}
		}
		if most < 0 {
			break
		}
		d := &i.Domains[most]
		if n := len(d.Flows); n > 0 {
			f := &d.Flows[n-1]
			size := flowSize(f)
			sizes.total -= size
			sizes.domain[most] -= size
			sizes.records--
			d.NotReplicable = note(d.NotReplicable, Unusable{Name: f.ID + ".mxl-flow", Reason: fmt.Sprintf(
				"the flows of this host do not fit the %d MiB that a peer reads, and of its domain this one has the longest definition: %d bytes", maxAnswer>>20, len(f.Def))})
			d.Flows = d.Flows[:n-1]
			continue
		}
		sizes.total -= sizes.domain[most]
		sizes.records -= 1 + len(d.NotReplicable)
		gone[most] = true
		i.Unusable = note(i.Unusable, Unusable{Name: d.Path, Reason: fmt.Sprintf(
			"the domains of this host do not fit the %d MiB that a peer reads: options of %d bytes", maxAnswer>>20, len(d.Options))})
	}
	var kept []Domain
	for d := range i.Domains {
		if !gone[d] {
			kept = append(kept, i.Domains[d])
		}
	}
	i.Domains = append([]Domain{}, kept...)
}

// few is a list of at most maxNoted short notes; the last says that there are more.
func few(list []Unusable) []Unusable {
	more := len(list) > maxNoted
	if more {
		list = list[:maxNoted]
	}
	out := make([]Unusable, 0, len(list)+1)
	for _, u := range list {
		out = append(out, Unusable{Name: cut(u.Name), Reason: cut(u.Reason)})
	}
	if more {
		out = append(out, Unusable{Reason: fmt.Sprintf("more than %d directories cannot be used, the rest is not named", maxNoted)})
	}
	if len(out) == 0 {
		return nil // as it was: the member is left out
	}
	return out
}

// fewNotes keeps the notes of all domains together below maxNoted.
func (i *Inventory) fewNotes() {
	left := maxNoted
	for d := range i.Domains {
		list := i.Domains[d].NotReplicable
		if len(list) > left {
			i.Domains[d].NotReplicable = list[:left:left]
		}
		left -= len(i.Domains[d].NotReplicable)
	}
}

func cut(s string) string {
	if len(s) <= maxNote {
		return s
	}
	return s[:maxNote] + "…"
}

// inventorySizes are upper bounds of the bytes of an inventory's JSON.
type inventorySizes struct {
	total   int
	records int   // elements of its lists, as checkRecords counts them
	domain  []int // of each with its flows
}

// Enough for the names of the members, the numbers and the punctuation of one record.
const (
	inventoryFrame = 256
	domainFrame    = 128
	flowFrame      = 512
	noteFrame      = 32
)

func (i *Inventory) sizes() inventorySizes {
	s := inventorySizes{total: inventoryFrame + textSize(i.HostID), domain: make([]int, len(i.Domains))}
	for _, u := range i.Unusable {
		s.total += noteSize(u)
	}
	s.records = len(i.Unusable)
	for d := range i.Domains {
		domain := &i.Domains[d]
		size := domainFrame + textSize(domain.ID) + textSize(domain.Path) + len(domain.Options)
		for f := range domain.Flows {
			size += flowSize(&domain.Flows[f])
		}
		for _, u := range domain.NotReplicable {
			size += noteSize(u)
		}
		s.domain[d] = size
		s.total += size
		s.records += 1 + len(domain.Flows) + len(domain.NotReplicable)
	}
	return s
}

func flowSize(f *Flow) int {
	return flowFrame + len(f.ID) + len(f.Def) + textSize(f.DefText) + textSize(f.MediaType)
}

func noteSize(u Unusable) int { return noteFrame + textSize(u.Name) + textSize(u.Reason) }

// textSize is the length of a text as a JSON string, at most.
func textSize(s string) int {
	n := len(s) + 2
	for _, c := range []byte(s) {
		switch {
		case c == '"' || c == '\\':
			n++
		case c < ' ' || c >= utf8.RuneSelf || c == '<' || c == '>' || c == '&':
			n += 5 // \u0000, also for bytes that are no UTF-8
		}
	}
	return n
}

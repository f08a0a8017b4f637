package fabrics

import (
	"math/rand/v2"
	"testing"
)

func TestNextGrain(t *testing.T) {
	const N, T = 10, 108
	at := func(index uint64, slices int) grainCursor { return grainCursor{index, slices} }
	for _, c := range []struct {
		name    string
		c       grainCursor
		v       grainView
		partial bool
		want    grainStep
	}{
		{"nothing was written", at(undefinedIndex, 0), grainView{head: undefinedIndex, depth: N}, true, grainStep{}},
		{"just connected", at(undefinedIndex, 0), grainView{head: 50, depth: N}, true, grainStep{action: grainJump}},
		{"not due", at(51, 0), grainView{head: 50, depth: N, index: 41, valid: T, total: T}, true, grainStep{}},
		{"opened, not committed", at(51, 0), grainView{head: 50, depth: N, index: 51, total: T}, true, grainStep{}},
		{"complete head", at(50, 0), grainView{head: 50, depth: N, index: 50, valid: T, total: T}, false, grainStep{grainSend, 0, T, true}},
		{"rest of the head", at(50, 40), grainView{head: 50, depth: N, index: 50, valid: T, total: T}, true, grainStep{grainSend, 40, T, true}},
		{"partial head", at(50, 0), grainView{head: 50, depth: N, index: 50, valid: 20, total: T}, true, grainStep{action: grainSend, end: 20}},
		{"partial head, whole grains only", at(50, 0), grainView{head: 50, depth: N, index: 50, valid: 20, total: T}, false, grainStep{}},
		{"no new slices", at(50, 20), grainView{head: 50, depth: N, index: 50, valid: 20, total: T}, true, grainStep{}},
		{"invalid", at(50, 0), grainView{head: 50, depth: N, index: 50, invalid: true, valid: 7, total: T}, false, grainStep{action: grainSend, last: true}},
		{"invalid with a later head", at(50, 0), grainView{head: 53, depth: N, index: 50, invalid: true, total: T}, false, grainStep{action: grainSend, last: true}},
		{"became invalid half-way", at(50, 20), grainView{head: 50, depth: N, index: 50, invalid: true, valid: 20, total: T}, true, grainStep{action: grainSend, last: true}},
		{"never written", at(50, 0), grainView{head: 51, depth: N, index: 40, valid: T, total: T}, true, grainStep{action: grainSkip, last: true}},
		{"opened and left", at(50, 0), grainView{head: 51, depth: N, index: 50, total: T}, true, grainStep{action: grainSkip, last: true}},
		{"left incomplete", at(50, 0), grainView{head: 51, depth: N, index: 50, valid: 30, total: T}, false, grainStep{grainSend, 0, 30, true}},
		{"left incomplete, rest", at(50, 20), grainView{head: 51, depth: N, index: 50, valid: 30, total: T}, true, grainStep{grainSend, 20, 30, true}},
		{"left incomplete, all sent", at(50, 30), grainView{head: 51, depth: N, index: 50, valid: 30, total: T}, true, grainStep{action: grainFinish, last: true}},
		{"overwritten", at(50, 0), grainView{head: 55, depth: N, index: 60, total: T}, true, grainStep{action: grainJump}},
		{"too old", at(50, 0), grainView{head: 59, depth: N, index: 50, valid: T, total: T}, true, grainStep{action: grainJump}},
		{"oldest still sent", at(50, 0), grainView{head: 58, depth: N, index: 50, valid: T, total: T}, true, grainStep{grainSend, 0, T, true}},
		{"too old for a slow peer", at(50, 0), grainView{head: 56, depth: N, spare: 3, index: 50, valid: T, total: T}, true, grainStep{action: grainJump}},
		{"half the ring is always used", at(50, 0), grainView{head: 54, depth: N, spare: 100, index: 50, valid: T, total: T}, true, grainStep{grainSend, 0, T, true}},
		{"the origin went back", at(50, 0), grainView{head: 40, depth: N, index: 40, valid: T, total: T}, true, grainStep{action: grainJump}},
		{"head seen before its header", at(50, 0), grainView{head: 50, depth: N, index: 40, valid: T, total: T}, true, grainStep{}},
		{"ring of one", at(7, 0), grainView{head: 7, depth: 1, index: 7, valid: T, total: T}, true, grainStep{grainSend, 0, T, true}},
	} {
		if got := nextGrain(c.c, c.v, c.partial); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// modelOrigin is a writer as a lane sees it.
type modelOrigin struct {
	depth uint64
	total int
	head  uint64
	slots []struct {
		index   uint64
		valid   int
		invalid bool
	}
}

func (m *modelOrigin) view(index uint64) grainView {
	v := grainView{head: m.head, depth: m.depth, total: m.total}
	if index != undefinedIndex {
		s := m.slots[index%m.depth]
		v.index, v.valid, v.invalid = s.index, s.valid, s.invalid
	}
	return v
}

// Test23InitiatorRules: over random commits, skips, jumps, laps and reconnects the
// source names existing slots only, begins every slot's occupant at slice 0, and
// never sends a range outside the grain or an index that is not in the slot (MXL
// Fabrics reference §13.23, §13.24, §13.9).
func Test23InitiatorRules(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		m := &modelOrigin{depth: 2 + r.Uint64N(12), total: 1 + r.IntN(20), head: undefinedIndex}
		remote := 1 + r.IntN(12) // regions of the target
		m.slots = make([]struct {
			index   uint64
			valid   int
			invalid bool
		}, m.depth)
		for i := range m.slots {
			m.slots[i].index = undefinedIndex
		}
		cursor := grainCursor{index: undefinedIndex}
		header := make([]uint64, remote) // index whose header the remote slot has, this connection
		forget := func() {
			for i := range header {
				header[i] = undefinedIndex
			}
		}
		forget()
		partial := seed%2 == 0
		for range 400 {
			switch r.IntN(6) {
			case 0, 1, 2: // commit more of the head, or the next index
				open := m.head
				if open == undefinedIndex {
					open = 1000 + r.Uint64N(100)
				} else if s := m.slots[open%m.depth]; s.valid == m.total || s.invalid || r.IntN(4) == 0 {
					open += 1 + uint64(max(0, r.IntN(8)-6))*r.Uint64N(40)
				}
				s := &m.slots[open%m.depth]
				if s.index != open {
					s.index, s.valid, s.invalid = open, 0, false
				}
				m.head = open
				if r.IntN(10) == 0 {
					s.invalid = true
				} else {
					s.valid = min(m.total, s.valid+1+r.IntN(m.total))
				}
			case 3: // the writer opens the next index
				if m.head != undefinedIndex && r.IntN(3) == 0 {
					s := &m.slots[(m.head+1)%m.depth]
					s.index, s.valid, s.invalid = m.head+1, 0, false
				}
			case 4: // reconnect
				if r.IntN(10) == 0 {
					cursor = grainCursor{index: undefinedIndex}
					forget()
				}
			case 5: // the origin goes back
				if m.head != undefinedIndex && r.IntN(40) == 0 {
					m.head -= min(m.head, r.Uint64N(30))
				}
			}
			for range r.IntN(4) {
				v := m.view(cursor.index)
				step := nextGrain(cursor, v, partial)
				switch step.action {
				case grainJump:
					if cursor.index > v.head && cursor.index != undefinedIndex {
						forget() // the lane reconnects
					}
					cursor = grainCursor{index: v.head}
				case grainSkip, grainFinish:
					cursor = grainCursor{index: cursor.index + 1}
				case grainSend:
					local := m.slots[cursor.index%m.depth]
					slot := int(cursor.index % uint64(remote))
					if local.index != cursor.index {
						t.Fatalf("seed %d: index %d is sent from a slot with %d", seed, cursor.index, local.index)
					}
					if _, err := grainWrites(nil, grainGeometry{1, m.total, [4]uint32{1}}, step.start, step.end); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					if imm := newGrainImmediate(slot, step.end); imm.slot() >= remote || imm.slices() > m.total {
						t.Fatalf("seed %d: immediate %#x", seed, uint32(imm))
					}
					if step.end > local.valid {
						t.Fatalf("seed %d: slices to %d of %d valid", seed, step.end, local.valid)
					}
					if step.start == 0 {
						header[slot] = cursor.index
					} else if header[slot] != cursor.index {
						t.Fatalf("seed %d: slices %d to %d of %d into a slot with the header of %d", seed, step.start, step.end, cursor.index, header[slot])
					}
					cursor.slices = step.end
					if step.last {
						cursor = grainCursor{index: cursor.index + 1}
					}
				}
			}
		}
	}
}

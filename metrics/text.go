package metrics

import (
	"bytes"
	"math"
	"slices"
	"strconv"
	"strings"
)

// text is the sink that writes the exposition format itself. A page with
// thousands of flow series takes a fifth of the time that it takes through
// the registry's protocol messages; a test holds both to the same lines. What it
// needs grows with the page and not faster: all labels are in one buffer, and what
// has the same labels comes together by the sorting that the page needs anyway.
type text struct {
	order    [familyCount][2][]int // where each label value goes, names in byte order
	families [familyCount][]line
	labels   []byte // of all lines
	bounds   map[float64]string
}

// line is one sample, or the lines of one histogram.
type line struct {
	from, to  int // labels, for the order within the family too
	value     float64
	how       func(a, b float64) float64 // nil: the only one of its labels
	histogram []byte
}

func newText() *text {
	t := &text{bounds: make(map[float64]string)}
	for f, s := range families {
		t.order[f] = [2][]int{sorted(s.TotalLabels), sorted(s.Labels)}
		if s.PerFlow != Totalled {
			t.order[f][0] = t.order[f][1]
		}
	}
	return t
}

func sorted(names []string) []int {
	order := make([]int, len(names))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(names[a], names[b]) })
	return order
}

var labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// line begins a line with the inside of its braces.
func (t *text) line(f family, perFlow bool, values []string) line {
	names, order := families[f].Labels, t.order[f][1]
	if !perFlow && families[f].PerFlow == Totalled {
		names, order = families[f].TotalLabels, t.order[f][0]
	}
	from := len(t.labels)
	for i, at := range order {
		if i > 0 {
			t.labels = append(t.labels, ',')
		}
		t.labels = append(t.labels, names[at]...)
		t.labels = append(t.labels, `="`...)
		if value := values[at]; strings.ContainsAny(value, "\\\n\"") {
			t.labels = append(t.labels, labelEscapes.Replace(value)...)
		} else {
			t.labels = append(t.labels, value...)
		}
		t.labels = append(t.labels, '"')
	}
	return line{from: from, to: len(t.labels)}
}

func (t *text) pairs(l line) []byte { return t.labels[l.from:l.to] }

func (t *text) sample(f family, perFlow bool, value float64, labels []string) {
	t.merge(f, perFlow, nil, value, labels)
}

func (t *text) merge(f family, perFlow bool, how func(a, b float64) float64, value float64, labels []string) {
	l := t.line(f, perFlow, labels)
	l.value, l.how = value, how
	t.families[f] = append(t.families[f], l)
}

func (t *text) histogram(f family, perFlow bool, b Buckets, labels []string) {
	l := t.line(f, perFlow, labels)
	pairs, name := t.pairs(l), families[f].Name
	out := make([]byte, 0, (len(b.Bounds)+3)*(len(name)+len(pairs)+32))
	var n uint64
	for i, bound := range b.Bounds {
		if i < len(b.Counts) {
			n += b.Counts[i]
		}
		out = appendSample(out, name, "_bucket", pairs, t.bound(bound), float64(n))
	}
	out = appendSample(out, name, "_bucket", pairs, "+Inf", float64(b.Count()))
	out = appendSample(out, name, "_sum", pairs, "", b.Sum)
	l.histogram = appendSample(out, name, "_count", pairs, "", float64(b.Count()))
	t.families[f] = append(t.families[f], l)
}

func appendSample(out []byte, name, suffix string, pairs []byte, le string, value float64) []byte {
	out = append(out, name...)
	out = append(out, suffix...)
	if len(pairs) > 0 || le != "" {
		out = append(out, '{')
		out = append(out, pairs...)
		if le != "" {
			if len(pairs) > 0 {
				out = append(out, ',')
			}
			out = append(out, `le="`...)
			out = append(out, le...)
			out = append(out, '"')
		}
		out = append(out, '}')
	}
	out = append(out, ' ')
	return append(appendNumber(out, value), '\n')
}

// bound is the text of a bucket's bound; every histogram of a family has the
// same ones.
func (t *text) bound(b float64) string {
	s, ok := t.bounds[b]
	if !ok {
		s = string(appendNumber(nil, b))
		t.bounds[b] = s
	}
	return s
}

func appendNumber(out []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(out, "+Inf"...)
	case v == math.Trunc(v) && math.Abs(v) < 1<<20:
		return strconv.AppendInt(out, int64(v), 10) // what 'g' gives too, and cheaper
	}
	return strconv.AppendFloat(out, v, 'g', -1, 64)
}

// blocks are the families with their headers, by name.
func (t *text) blocks(into map[string][]byte) {
	for f, lines := range t.families {
		if len(lines) == 0 {
			continue
		}
		s := families[f]
		slices.SortStableFunc(lines, func(a, b line) int { return bytes.Compare(t.pairs(a), t.pairs(b)) })
		size := len(s.Name) + len(s.Help) + 128
		for _, l := range lines {
			size += len(s.Name) + l.to - l.from + 28 + len(l.histogram)
		}
		block := make([]byte, 0, size)
		block = append(block, "# HELP "+s.Name+" "+s.Help+"\n# TYPE "+s.Name+" "+string(s.Kind)+"\n"...)
		for i := 0; i < len(lines); i++ {
			l := lines[i]
			if l.histogram != nil {
				block = append(block, l.histogram...)
				continue
			}
			for l.how != nil && i+1 < len(lines) && bytes.Equal(t.pairs(l), t.pairs(lines[i+1])) {
				i++
				l.value = l.how(l.value, lines[i].value)
			}
			block = appendSample(block, s.Name, "", t.pairs(l), "", l.value)
		}
		into[s.Name] = block
	}
}

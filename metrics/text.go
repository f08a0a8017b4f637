package metrics

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// text is the sink that writes the exposition format itself. A page with
// thousands of flow series takes a fifth of the time that it takes through
// the registry's protocol messages; a test holds both to the same lines.
type text struct {
	order    [familyCount][2][]int // where each label value goes, names in byte order
	families [familyCount][]line
	bounds   map[float64]string
}

// line is one sample, or the lines of one histogram.
type line struct {
	labels string // for the order within the family
	text   []byte
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

// pairs is the inside of the braces.
func (t *text) pairs(f family, perFlow bool, values []string) string {
	names, order := families[f].Labels, t.order[f][1]
	if !perFlow && families[f].PerFlow == Totalled {
		names, order = families[f].TotalLabels, t.order[f][0]
	}
	var b strings.Builder
	for i, at := range order {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(names[at])
		b.WriteString(`="`)
		b.WriteString(labelEscapes.Replace(values[at]))
		b.WriteByte('"')
	}
	return b.String()
}

func (t *text) sample(f family, perFlow bool, value float64, labels []string) {
	pairs := t.pairs(f, perFlow, labels)
	t.families[f] = append(t.families[f], line{labels: pairs, text: appendSample(make([]byte, 0, len(families[f].Name)+len(pairs)+24), families[f].Name, "", pairs, "", value)})
}

func (t *text) histogram(f family, perFlow bool, b Buckets, labels []string) {
	pairs, name := t.pairs(f, perFlow, labels), families[f].Name
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
	out = appendSample(out, name, "_count", pairs, "", float64(b.Count()))
	t.families[f] = append(t.families[f], line{labels: pairs, text: out})
}

func appendSample(out []byte, name, suffix, pairs, le string, value float64) []byte {
	out = append(out, name...)
	out = append(out, suffix...)
	if pairs != "" || le != "" {
		out = append(out, '{')
		out = append(out, pairs...)
		if le != "" {
			if pairs != "" {
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
		slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.labels, b.labels) })
		size := len(s.Name) + len(s.Help) + 128
		for _, l := range lines {
			size += len(l.text)
		}
		block := make([]byte, 0, size)
		block = append(block, "# HELP "+s.Name+" "+s.Help+"\n# TYPE "+s.Name+" "+string(s.Kind)+"\n"...)
		for _, l := range lines {
			block = append(block, l.text...)
		}
		into[s.Name] = block
	}
}

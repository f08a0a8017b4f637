package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Describe implements prometheus.Collector. It sends nothing: which labels a
// series has depends on METRICS_PER_FLOW, which may change at run time.
func (p *Page) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (p *Page) Collect(ch chan<- prometheus.Metric) { p.scrape(channel{page: p, ch: ch}) }

// scrape sends everything that is not counted by the client library.
func (p *Page) scrape(to sink) {
	p.mu.Lock()
	now := p.now
	total := p.lanes.total()
	rebuilds := p.rebuilds.total()
	p.mu.Unlock()

	out := &rows{to: to, perFlow: now.PerFlow}
	out.host(now)
	out.replications(now.Replications)
	out.timing(now.Lanes, total)
	out.mirrors(now, rebuilds)
	out.flush()
}

// rows gathers the samples of one scrape; those with the same labels are one
// sample.
type rows struct {
	to      sink
	perFlow bool
	sums    [familyCount]map[string]*sample
}

type sample struct {
	labels []string
	value  float64
}

// emit sends one sample that is known to be the only one of its labels.
func (r *rows) emit(f family, value float64, labels ...string) {
	r.to.sample(f, r.perFlow, value, labels)
}

func (r *rows) histogram(f family, b Buckets, labels ...string) {
	if len(b.Counts) > 0 {
		r.to.histogram(f, r.perFlow, b, labels)
	}
}

// add gathers a sample of a family that may have several rows with the same
// labels; how says what becomes of them.
func (r *rows) add(f family, how func(a, b float64) float64, value float64, labels ...string) {
	if m, ok := r.to.(merger); ok {
		m.merge(f, r.perFlow, how, value, labels)
		return
	}
	if r.sums[f] == nil {
		r.sums[f] = make(map[string]*sample)
	}
	key := strings.Join(labels, "\x00")
	if s, ok := r.sums[f][key]; ok {
		s.value = how(s.value, value)
		return
	}
	r.sums[f][key] = &sample{labels: labels, value: value}
}

func (r *rows) flush() {
	for f := range r.sums {
		for _, s := range r.sums[f] {
			r.emit(family(f), s.value, s.labels...)
		}
	}
}

func sum(a, b float64) float64     { return a + b }
func largest(a, b float64) float64 { return max(a, b) }

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

package metrics

import "github.com/prometheus/client_golang/prometheus"

// sink takes the samples of one scrape.
type sink interface {
	sample(f family, perFlow bool, value float64, labels []string)
	histogram(f family, perFlow bool, b Buckets, labels []string)
}

// merger is a sink that makes one sample of several with the same labels itself.
type merger interface {
	merge(f family, perFlow bool, how func(a, b float64) float64, value float64, labels []string)
}

// channel is the sink of a prometheus.Registry.
type channel struct {
	page *Page
	ch   chan<- prometheus.Metric
}

func (c channel) desc(f family, perFlow bool) *prometheus.Desc {
	if perFlow {
		return c.page.perFlow[f]
	}
	return c.page.totals[f]
}

func (c channel) sample(f family, perFlow bool, value float64, labels []string) {
	kind := prometheus.GaugeValue
	if families[f].Kind == Counter {
		kind = prometheus.CounterValue
	}
	desc := c.desc(f, perFlow)
	m, err := prometheus.NewConstMetric(desc, kind, value, labels...)
	c.send(desc, m, err)
}

func (c channel) histogram(f family, perFlow bool, b Buckets, labels []string) {
	desc := c.desc(f, perFlow)
	m, err := b.metric(desc, labels...)
	c.send(desc, m, err)
}

// send passes a failure on to the scrape: it names the series.
func (c channel) send(desc *prometheus.Desc, m prometheus.Metric, err error) {
	if err != nil {
		m = prometheus.NewInvalidMetric(desc, err)
	}
	c.ch <- m
}

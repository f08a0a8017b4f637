package main

import (
	"sync/atomic"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// watcher collects the mirror's commits on a thread of its own.
type watcher struct {
	arrived []moment // mirror commits
	woken   []moment // when a waiting reader had woken; empty where it polls
	ended   atomic.Bool
	done    chan error
}

func (w *watcher) start(m medium) {
	w.done = make(chan error, 1)
	go func() { w.done <- m.watch(w) }()
}

func (w *watcher) stop() error {
	w.ended.Store(true)
	return <-w.done
}

// measure fills in what the commits tell.
func (w *watcher) measure(rate mxl.Rational, ready []moment, o *outcome) (err error) {
	if o.latency, err = latencies(ready, w.arrived); err != nil {
		return err
	}
	if o.age, err = ages(rate, w.arrived); err != nil {
		return err
	}
	if len(w.woken) > 0 {
		o.reader, err = latencies(ready, w.woken)
	}
	return err
}

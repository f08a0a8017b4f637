package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
)

// The time before the first look that counts: rings and the buffers of libfabric are
// touched for the first time, the runtime finds its heap's size and, with wear, as
// many threads and stacks as it ever needs. What is beyond heap and stacks, libfabric's
// queues among it, rises for five minutes and then no more.
const (
	warmUpLeast = 20 * time.Second
	warmUpMost  = 5 * time.Minute
)

func warmUpFor(duration time.Duration) time.Duration {
	return min(max(duration/2, warmUpLeast), warmUpMost)
}

// The Go runtime keeps ended goroutines with their stacks for new ones, up to 64 for
// each of its processors, of which there is one more for every lane. A plant where
// nothing happens starts some 15 goroutines a second, and each list wanders between
// empty and full: it takes seven minutes until as many are kept as ever will be, 640
// to 710 for 90 that live, with 3.5 MiB of stacks. Wear starts twenty times as many, and
// the threads that a busy agent needs. As many requests without a pause, in seconds,
// fill the lists too, but with goroutines whose stacks are gone again.
const (
	wearers   = 16 // of each agent
	wearPause = 50 * time.Millisecond
)

// wear has every agent answer, up to 300 times a second, for a time. Pauses and new
// connections spread the goroutines over all processors, as at rest.
func wear(ctx context.Context, hosts []*plant.Host, d time.Duration) error {
	over := time.Now().Add(d)
	var wg sync.WaitGroup
	errs := make([]error, len(hosts)*wearers)
	for i := range errs {
		h := hosts[i%len(hosts)]
		wg.Go(func() {
			for time.Now().Before(over) && ctx.Err() == nil {
				status, _, err := h.Do(ctx, http.MethodGet, "/livez", nil)
				if err == nil && status != http.StatusOK {
					err = fmt.Errorf("status %d", status)
				}
				if err != nil {
					errs[i] = fmt.Errorf("GET /livez of %s: %w", h.HostID, err)
					return
				}
				time.Sleep(wearPause)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// warmUp wears the agents and lets everything run for the rest of the time, looking
// on: the plot has it.
func (w *watch) warmUp(ctx context.Context, d time.Duration) error {
	worn := make(chan error, 1)
	go func() { worn <- wear(ctx, w.studio.Hosts, d*2/3) }()
	err := errors.Join(w.run(ctx, d, nil), <-worn)
	if err == nil {
		err = w.studio.Steady(ctx, 30*time.Second)
	}
	w.settled = time.Since(w.began)
	return err
}

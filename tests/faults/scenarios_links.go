package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
)

// noticeLimit is how soon a pulled cable has to be the state of what used it.
// The aim is 200 ms on an idle machine; a busy one is given this.
const noticeLimit = 2 * time.Second

// links are the scenarios about cables, addresses and the control network.
func links() []scenario {
	return []scenario{
		{name: "cable", about: "the cable between two hosts is pulled and plugged in again", limit: cableLimit, run: cablePulled(false)},
		{name: "device", about: "one end's device is turned off and on again", limit: cableLimit, run: deviceOff},
		{name: "address", about: "one end's fabric address is removed and added again", run: addressRemoved},
		{name: "control_network", about: "a host loses the control network; its flows must not notice", run: controlCut},
		{name: "switched_steady", about: "nothing happens at a switch", switched: true, run: func(ctx context.Context, r *run) error { return mesh.Pause(ctx, 3*time.Second) }},
		{name: "switched_cable", about: "a host's cable to the switch is pulled and plugged in again", limit: cableLimit, switched: true, run: cablePulled(true)},
		{name: "switched_destination_sigkill", about: "the destination agent is killed, at a switch", limit: killLimit, switched: true, run: processes()[4].run},
	}
}

// cablePulled pulls the cable between a and b, or the one of a to the switch.
func cablePulled(switched bool) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		hit := between(r.a, r.b)
		if switched {
			hit = at(r.a)
		}
		cable := r.Cable(r.a, r.b)
		return interrupted(ctx, r, hit, cable.Down, cable.Up)
	}
}

// interrupted takes away what the touched paths go over, waits until that is noticed,
// and gives it back after a while.
func interrupted(ctx context.Context, r *run, hit func(*studio.Path) bool, take, give func() error) error {
	r.touch(hit)
	if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
		return err
	}
	r.clean(func(context.Context) error { return give() })
	down := time.Now()
	if err := take(); err != nil {
		return err
	}
	if err := noticed(ctx, r, hit, down); err != nil {
		return err
	}
	if err := r.upTo(ctx, longestStill); err != nil {
		return err
	}
	r.over(hit)
	return give()
}

// noticed waits until every touched path that ends at host a is link_down there
// and notes how long that took.
func noticed(ctx context.Context, r *run, hit func(*studio.Path) bool, down time.Time) error {
	err := mesh.Eventually(ctx, noticeLimit, r.a.HostID+" says link_down", func() error {
		rows, err := r.a.Replications(ctx)
		if err != nil {
			return err
		}
		states := map[string]string{}
		for _, row := range rows {
			if row.Role == "destination" {
				states[row.FlowID] = row.State
			}
		}
		for _, p := range r.Paths() {
			if hit(p) && p.To == r.a && states[p.Flow.ID] != "link_down" {
				return fmt.Errorf("%s is %s", p.Name, states[p.Flow.ID])
			}
		}
		return nil
	})
	if err == nil {
		r.result.Noticed = max(r.result.Noticed, time.Since(down))
	}
	return err
}

// deviceOff turns the device of host a towards b off: its routes go, too.
func deviceOff(ctx context.Context, r *run) error {
	end := r.a.End(r.b)
	return interrupted(ctx, r, between(r.a, r.b), end.DeviceDown, end.DeviceUp)
}

// addressRemoved takes the fabric address of host a towards b.
func addressRemoved(ctx context.Context, r *run) error {
	end := r.a.End(r.b)
	var once sync.Once // an address can be added once only
	return interrupted(ctx, r, between(r.a, r.b), end.AddressRemove, func() (err error) {
		once.Do(func() { err = end.AddressAdd() })
		return err
	})
}

// controlCut takes the control network from host a, for less than the registry
// takes to forget it. What flows goes on flowing.
func controlCut(ctx context.Context, r *run) error {
	r.clean(func(context.Context) error { return r.a.Control.Up() })
	if err := r.a.Control.Down(); err != nil {
		return err
	}
	if err := mesh.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := r.upTo(ctx, longestStill); err != nil {
		return err
	}
	r.recovery = func(ctx context.Context) error {
		return mesh.Eventually(ctx, patience, "all peers of "+r.a.HostID+" are up", func() error {
			var rows []struct {
				HostID string `json:"host_id"`
				Up     bool   `json:"up"`
				Error  string `json:"error"`
			}
			if err := r.a.Get(ctx, "/api/v1/peers", &rows); err != nil {
				return err
			}
			for _, row := range rows {
				if !row.Up {
					return fmt.Errorf("%s is down: %s", row.HostID, row.Error)
				}
			}
			return nil
		})
	}
	r.over(func(*studio.Path) bool { return false })
	return r.a.Control.Up()
}

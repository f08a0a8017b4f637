package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
)

// Targets of the project: see docs of the fault matrix.
const (
	killLimit   = 1500 * time.Millisecond
	cableLimit  = 2 * time.Second
	writerLimit = 1500 * time.Millisecond
)

const (
	longestDown  = 2 * time.Second // of a process that was ended
	longestStill = 4 * time.Second // of one that was stopped with SIGSTOP
)

// processes are the scenarios in which a program ends or stands still.
func processes() []scenario {
	return []scenario{
		{name: "steady", about: "nothing happens", run: func(ctx context.Context, r *run) error { return mesh.Pause(ctx, 3*time.Second) }},
		{name: "source_sigkill", about: "the source agent is killed and started again", limit: killLimit, run: agentEnds(syscall.SIGKILL, from)},
		{name: "source_sigterm", about: "the source agent is terminated and started again", run: agentEnds(syscall.SIGTERM, from)},
		{name: "source_sigstop", about: "the source agent stands still", run: agentStands(from)},
		{name: "destination_sigkill", about: "the destination agent is killed and started again", limit: killLimit, run: agentEnds(syscall.SIGKILL, to)},
		{name: "destination_sigterm", about: "the destination agent is terminated and started again", run: agentEnds(syscall.SIGTERM, to)},
		{name: "destination_sigstop", about: "the destination agent stands still", run: agentStands(to)},
		{name: "registry_sigkill", about: "the registry is killed and comes back empty", run: registryEnds(syscall.SIGKILL), check: activationWorks},
		{name: "registry_sigterm", about: "the registry is terminated and comes back empty", run: registryEnds(syscall.SIGTERM), check: activationWorks},
		{name: "registry_sigstop", about: "the registry stands still", run: registryStands, check: activationWorks},
	}
}

// agentEnds ends the agent of host a and starts it again.
func agentEnds(signal syscall.Signal, awaited func(*plant.Host) func(*studio.Path) bool) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		r.touch(at(r.a))
		r.ended[r.a] = true
		if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		r.a.Signal(signal)
		if err := ends(r.a.Process, 15*time.Second); err != nil {
			return err
		}
		if code := r.a.ExitCode(); signal == syscall.SIGTERM && code != 143 {
			return fmt.Errorf("the agent exited with %d after SIGTERM", code)
		}
		if r.random.IntN(2) == 0 { // half of them are started again at once
			if err := r.upTo(ctx, longestDown); err != nil {
				return err
			}
		}
		r.over(awaited(r.a))
		return r.a.Launch("")
	}
}

// agentStands stops the agent of host a for a while.
func agentStands(awaited func(*plant.Host) func(*studio.Path) bool) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		r.touch(at(r.a))
		if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		r.a.Signal(syscall.SIGSTOP)
		r.clean(func(context.Context) error { r.a.Signal(syscall.SIGCONT); return nil })
		if err := mesh.Pause(ctx, time.Second); err != nil {
			return err
		}
		if err := r.upTo(ctx, longestStill-time.Second); err != nil {
			return err
		}
		r.over(awaited(r.a))
		r.a.Signal(syscall.SIGCONT)
		return nil
	}
}

// registryEnds ends the registry and starts it again. It touches no path.
func registryEnds(signal syscall.Signal) func(context.Context, *run) error {
	return func(ctx context.Context, r *run) error {
		if err := r.upTo(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		r.Registry.Signal(signal)
		if err := ends(r.Registry, 15*time.Second); err != nil {
			return err
		}
		if err := r.upTo(ctx, longestDown); err != nil {
			return err
		}
		r.recovery = r.allRegistered
		r.over(func(*studio.Path) bool { return false })
		return r.StartRegistry(ctx)
	}
}

func registryStands(ctx context.Context, r *run) error {
	r.Registry.Signal(syscall.SIGSTOP)
	r.clean(func(context.Context) error { r.Registry.Signal(syscall.SIGCONT); return nil })
	if err := mesh.Pause(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := r.upTo(ctx, longestStill); err != nil {
		return err
	}
	r.recovery = r.allRegistered
	r.over(func(*studio.Path) bool { return false })
	r.Registry.Signal(syscall.SIGCONT)
	return nil
}

// allRegistered waits until the registry lists every agent and every media node.
func (r *run) allRegistered(ctx context.Context) error {
	return mesh.Eventually(ctx, patience, "all nodes are registered", func() error {
		status, body, err := r.RegistryControl(ctx, http.MethodGet, "/registered", nil)
		if err != nil {
			return err
		}
		var nodes []json.RawMessage
		if err := json.Unmarshal(body, &nodes); err != nil {
			return fmt.Errorf("registered nodes (status %d): %w", status, err)
		}
		if want := 2 * len(r.Hosts); len(nodes) != want {
			return fmt.Errorf("%d nodes of %d", len(nodes), want)
		}
		return nil
	})
}

// activationWorks connects a receiver and disconnects it again.
func activationWorks(ctx context.Context, r *run) error {
	_, paths, err := r.guest(ctx, r.a, studio.Data, r.b)
	if err != nil {
		return err
	}
	return arrives(ctx, paths...)
}

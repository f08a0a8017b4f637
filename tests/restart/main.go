// Command restart ends the destination agent again and again, with SIGKILL and
// with SIGTERM, at random moments and now and then in the middle of its start,
// and starts it again, every second time from another build. All the while
// readers have the mirrors of a video and an audio flow mapped, verify every
// byte, and never open them again. It writes build/results/restart.json and
// fails when a mirror became another file, a grain was bad, a head fell, or
// grains took longer than 1.5 s to come again. Run it from the top of the tree,
// after make build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const (
	logs = "build/restart"
	// otherVersion is the version of the second build.
	otherVersion = "0.0.0-restart-test"

	longestRun   = 1500 * time.Millisecond // random time from grains to the end of an agent
	longestStart = 400 * time.Millisecond  // random time to the end of one that is ended while it starts
	// patience is how long grains are waited for; recoveryLimit is what they may
	// take.
	patience = 20 * time.Second
)

func main() {
	rounds := flag.Int("restarts", 20, "`number` of restarts with SIGKILL, and as many with SIGTERM")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the random moments")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *rounds, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "restart:", err)
		os.Exit(1)
	}
}

// options of the flows: two seconds of ring, so that a reader that is late on a
// busy machine misses nothing.
var (
	video = mesh.Flow{Name: "video", DomainID: "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e21", ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f6a01", Domain: "studio",
		Options: []string{"--format", "v210", "--width", "320", "--height", "180", "--rate", "50", "--history-ms", "2000"}}
	audio = mesh.Flow{Name: "audio", DomainID: video.DomainID, ID: "0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f6a02", Domain: video.Domain,
		Options: []string{"--format", "audio", "--channels", "2", "--batch", "480", "--history-ms", "2000"}}
)

func run(ctx context.Context, rounds int, seed uint64) error {
	_ = os.Remove(resultFile)
	m, err := mesh.New(mesh.Options{Binaries: "build/bin", Logs: logs, Receivers: 2})
	if err != nil {
		return err
	}
	defer m.Close()
	other, err := buildOther(ctx)
	if err != nil {
		return err
	}
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	for i, f := range []mesh.Flow{video, audio} {
		if _, err := m.Write(m.A, f); err != nil {
			return err
		}
		if err := m.Connect(ctx, i, f); err != nil {
			return err
		}
	}
	for _, f := range []mesh.Flow{video, audio} {
		if err := m.Flowing(ctx, f, 30*time.Second); err != nil {
			return err
		}
	}
	reader, err := m.Run("read-audio", "mxl-pattern", "read", "--json", "--allow-gaps", "--no-invalid", m.B.MirrorDomain(audio.DomainID), audio.ID)
	if err != nil {
		return err
	}
	w, err := follow(m, video)
	if err != nil {
		return err
	}
	following, stopFollowing := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer w.ring.Close()
		w.run(following)
	}()
	defer func() {
		stopFollowing()
		<-ended
	}()

	fmt.Printf("restart: %d SIGKILLs and %d SIGTERMs of the destination agent, seed %d\n", rounds, rounds, seed)
	r := &restarts{mesh: m, reader: w, random: rand.New(rand.NewPCG(seed, 0)), other: other, versions: map[string]bool{}}
	times, err := r.all(ctx, rounds)
	if err != nil {
		return err
	}
	stopFollowing()
	<-ended
	reader.Stop(5 * time.Second)
	heard, err := mesh.Result[heardAudio](reader)
	if err != nil {
		return err
	}
	return r.report(times, w.result(), heard)
}

// heardAudio is what mxl-pattern read says of the audio mirror, as far as it is
// used here.
type heardAudio struct {
	mesh.Totals
	HeadWentBack uint64   `json:"head_went_back"`
	Inodes       []uint64 `json:"inodes"`
}

// buildOther builds the agent with another version: what it is upgraded to, and
// back from.
func buildOther(ctx context.Context) (string, error) {
	path, err := filepath.Abs(filepath.Join(logs, "mxl-fabrics-agent-other"))
	if err != nil {
		return "", err
	}
	build := exec.CommandContext(ctx, "go", "build", "-o", path,
		"-ldflags", "-X github.com/mxl-stack/mxl-fabrics-agent/agent.Version="+otherVersion, "./cmd/mxl-fabrics-agent")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the other version: %w: %s", err, out)
	}
	return path, nil
}

// restarts is a run of them.
type restarts struct {
	mesh     *mesh.Mesh
	reader   *follower
	random   *rand.Rand
	other    string // path of the other build
	versions map[string]bool
	out      outcome
}

// all ends the agent rounds times with each signal, and gives the times from
// each start to the next grain.
func (r *restarts) all(ctx context.Context, rounds int) ([]time.Duration, error) {
	var times []time.Duration
	for i := range 2 * rounds {
		signal := syscall.SIGKILL
		if i%2 == 1 {
			signal = syscall.SIGTERM
		}
		// Every fifth one is ended while it starts.
		starting := i%5 == 4
		if starting {
			r.out.DuringStart++
			if err := mesh.Pause(ctx, r.upTo(longestStart)); err != nil {
				return nil, err
			}
		} else if err := mesh.Pause(ctx, r.upTo(longestRun)); err != nil {
			return nil, err
		}
		if err := r.end(signal); err != nil {
			return nil, err
		}
		if err := r.reader.look(); err != nil {
			return nil, fmt.Errorf("after %v number %d: %w", signal, i+1, err)
		}
		program := ""
		if i%2 == 0 {
			program = r.other
		}
		grain := r.reader.next()
		began := time.Now()
		if err := r.mesh.B.Launch(program); err != nil {
			return nil, err
		}
		r.out.Restarts++
		if (i+1)%5 == 4 && i+1 < 2*rounds {
			continue // the next one ends it while it starts
		}
		took, err := r.await(ctx, grain, began)
		if err != nil {
			return nil, fmt.Errorf("restart %d (%v): %w", i+1, signal, err)
		}
		times = append(times, took)
		fmt.Printf("  %2d of %d, %-10v grains again after %4.0f ms\n", i+1, 2*rounds, signal, ms(took))
		if err := r.version(ctx); err != nil {
			return nil, err
		}
		if err := r.reader.look(); err != nil {
			return nil, err
		}
	}
	return times, nil
}

func (r *restarts) upTo(longest time.Duration) time.Duration {
	return time.Duration(r.random.Int64N(int64(longest)))
}

// end ends the agent and checks how it went.
func (r *restarts) end(signal syscall.Signal) error {
	agent := r.mesh.B
	agent.Signal(signal)
	select {
	case <-agent.Done():
	case <-time.After(12 * time.Second):
		return fmt.Errorf("%v did not end the agent within 12 s", signal)
	}
	if signal == syscall.SIGKILL {
		r.out.SIGKILLs++
		return nil
	}
	r.out.SIGTERMs++
	// Before main has begun, the handler of a library that libfabric brings along
	// answers the signal.
	if code := agent.ExitCode(); code != 143 && len(agent.Output()) > 0 {
		return fmt.Errorf("after SIGTERM the agent exited with %d, not 143, see %s", code, agent.Log)
	}
	return nil
}

// await waits for the next grain.
func (r *restarts) await(ctx context.Context, grain <-chan time.Time, began time.Time) (time.Duration, error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case at := <-grain:
		return at.Sub(began), nil
	case <-r.mesh.B.Done():
		return 0, fmt.Errorf("the agent exited with %d, see %s", r.mesh.B.ExitCode(), r.mesh.B.Log)
	case <-timer.C:
		return 0, fmt.Errorf("no grain within %v, see %s", patience, r.mesh.B.Log)
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// version notes which build runs.
func (r *restarts) version(ctx context.Context) error {
	var info struct {
		Version string `json:"version"`
	}
	if err := r.mesh.B.Get(ctx, "/api/v1/info", &info); err != nil {
		return err
	}
	if info.Version == "" {
		return errors.New("the agent has no version")
	}
	r.versions[info.Version] = true
	return nil
}

// report writes and prints what came of it.
func (r *restarts) report(times []time.Duration, seen followed, heard heardAudio) error {
	o := &r.out
	o.Versions = len(r.versions)
	o.Inodes = max(len(seen.Inodes), len(heard.Inodes))
	o.VerifiedGrains, o.VerifiedSamples = seen.Verified, heard.Verified
	o.BadGrains = seen.Bad + seen.Invalid + heard.Bad + heard.Invalid
	o.HeadWentBack = seen.WentBack + heard.HeadWentBack
	o.FirstBad = seen.FirstBad + heard.FirstBad
	o.recovery(times)
	if err := o.write(); err != nil {
		return err
	}
	fmt.Printf("restart: %d restarts (%d SIGKILL, %d SIGTERM, %d of them during the start), %d builds\n", o.Restarts, o.SIGKILLs, o.SIGTERMs, o.DuringStart, o.Versions)
	fmt.Printf("restart: %d grains and %d samples verified by readers that mapped the mirrors all the time: inodes %d, bad %d, head went back %d\n",
		o.VerifiedGrains, o.VerifiedSamples, o.Inodes, o.BadGrains, o.HeadWentBack)
	fmt.Printf("restart: from a start to the next grain: p50 %.0f ms, worst %.0f ms (limit %.0f)\n", o.RecoveryP50MS, o.RecoveryWorstMS, ms(recoveryLimit))
	return o.verdict()
}

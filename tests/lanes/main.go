// Command lanes runs many flows at once through two agents, 64 of audio and 4 of
// video by default, and verifies every byte at the mirrors. It shows what a host
// whose lanes outnumber its processors does. It writes build/results/lanes.json and
// fails when anything is lost or bad. Run it from the top of the tree, after make
// build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const resultFile = "build/results/lanes.json"

// load is what is run.
type load struct {
	audio, video    int
	channels, batch int // of an audio flow; samples a commit
	width, height   int // of a video flow, 50p v210
	priority        int // RT_PRIORITY of the agents
	history         time.Duration
	duration        time.Duration
}

func main() {
	var l load
	flag.IntVar(&l.audio, "audio", 64, "audio `flows`")
	flag.IntVar(&l.video, "video", 4, "video `flows`")
	flag.IntVar(&l.channels, "channels", 2, "`channels` of an audio flow")
	flag.IntVar(&l.batch, "batch", 960, "`samples` an audio writer commits at once")
	flag.IntVar(&l.width, "width", 640, "`pixels` of a line of video")
	flag.IntVar(&l.height, "height", 360, "`lines` of a frame of video")
	flag.IntVar(&l.priority, "rt", 0, "RT_PRIORITY of the `agents`")
	flag.DurationVar(&l.history, "history", time.Second, "how `long` the rings are")
	flag.DurationVar(&l.duration, "duration", time.Minute, "how `long` to verify")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, l); err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		os.Exit(1)
	}
}

// flows are the load's, every one in a domain of its own kind.
func (l load) flows() []mesh.Flow {
	const sound, studio = "7d2a4c1e-90b3-4f5a-8c6d-1e2f3a4b5c01", "7d2a4c1e-90b3-4f5a-8c6d-1e2f3a4b5c02"
	all := make([]mesh.Flow, 0, l.audio+l.video)
	for i := range l.video {
		all = append(all, mesh.Flow{Name: fmt.Sprintf("video%d", i), DomainID: studio, ID: uuid.NewString(), Domain: "studio",
			Options: []string{"--format", "v210", "--rate", "50", "--width", strconv.Itoa(l.width), "--height", strconv.Itoa(l.height), "--history-ms", strconv.FormatInt(l.history.Milliseconds(), 10)}})
	}
	for i := range l.audio {
		all = append(all, mesh.Flow{Name: fmt.Sprintf("audio%d", i), DomainID: sound, ID: uuid.NewString(), Domain: "sound",
			Options: []string{"--format", "audio", "--channels", strconv.Itoa(l.channels), "--batch", strconv.Itoa(l.batch), "--sync-hint", strconv.Itoa(l.batch), "--history-ms", strconv.FormatInt(l.history.Milliseconds(), 10)}})
	}
	return all
}

func run(ctx context.Context, l load) error {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	all := l.flows()
	m, err := mesh.New(mesh.Options{
		Binaries: "build/bin", Logs: "build/lanes", Receivers: len(all), Environment: map[string]string{"RT_PRIORITY": strconv.Itoa(l.priority)},
	})
	if err != nil {
		return err
	}
	defer m.Close()
	fmt.Printf("lanes: %d audio flows (%d channels, commits of %d samples) and %d video flows (%dx%dp50 v210), two agents on loopback tcp, %d processors\n",
		l.audio, l.channels, l.batch, l.video, l.width, l.height, runtime.NumCPU())
	for _, a := range []*mesh.Agent{m.A, m.B} {
		if err := a.Start(ctx); err != nil {
			return err
		}
	}
	s := site{mesh: m, flows: all}
	if err := s.connect(ctx); err != nil {
		return err
	}
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	if err := s.read(ctx, l.duration); err != nil {
		return err
	}
	after, err := s.look(ctx)
	if err != nil {
		return err
	}
	results, wrong := s.verdict(l)
	took := after.at.Sub(before.at).Seconds()
	for i, name := range []string{"source", "destination"} {
		results[name+"_cpu_core_percent"] = 100 * (after.cpu[i] - before.cpu[i]) / took
		results[name+"_rss_mib"] = after.rss[i]
	}
	results["transfers_per_s"] = float64(after.transfers-before.transfers) / took
	fmt.Printf("%.0f transfers a second; processor: source agent %.0f %%, destination agent %.0f %% of one\n",
		results["transfers_per_s"], results["source_cpu_core_percent"], results["destination_cpu_core_percent"])
	if err := save(results); err != nil {
		return err
	}
	if wrong != nil {
		return wrong
	}
	fmt.Println("lanes: every grain and every sample arrived and was right")
	return nil
}

func save(results map[string]float64) error {
	for key, v := range results {
		results[key] = math.Round(v*1000) / 1000
	}
	_, err := mesh.Report(resultFile, results)
	return err
}

// verdict waits for the readers, ends the writers and adds up. The error says what
// was wrong with which flow.
func (s *site) verdict(l load) (map[string]float64, error) {
	results := map[string]float64{
		"audio_lanes": float64(l.audio), "video_lanes": float64(l.video), "processors": float64(runtime.NumCPU()),
		"samples_lost": 0, "grains_lost": 0, "bad": 0, "samples_verified": 0, "grains_verified": 0, "left_out_by_writers": 0,
		"seconds": math.Inf(1),
	}
	var wrong error
	for i, f := range s.flows {
		got, err := mesh.Result[mesh.Totals](s.readers[i])
		if err != nil {
			return results, err
		}
		s.writers[i].Stop(10 * time.Second)
		written, err := mesh.Result[mesh.Written](s.writers[i])
		if err != nil {
			return results, err
		}
		kind, unit := "video", "grains"
		if i >= l.video {
			kind, unit = "audio", "samples"
		}
		lost := got.LostInTransit(written)
		results[unit+"_lost"] += float64(lost)
		results[unit+"_verified"] += float64(got.Verified)
		results["bad"] += float64(got.Bad + got.Invalid)
		results["left_out_by_writers"] += float64(written.LateSkipped)
		results["seconds"] = min(results["seconds"], got.Seconds)
		results[kind+"_age_p50_worst_ms"] = max(results[kind+"_age_p50_worst_ms"], got.LatencyP50MS)
		results[kind+"_age_p99_worst_ms"] = max(results[kind+"_age_p99_worst_ms"], got.LatencyP99MS)
		switch {
		case got.Bad > 0:
			wrong = errors.Join(wrong, fmt.Errorf("%s: bad: %s", f.Name, got.FirstBad))
		case lost > 0, got.Invalid > 0, got.Seconds < l.duration.Seconds()-1:
			wrong = errors.Join(wrong, fmt.Errorf("%s: %d lost, %d invalid in %.1f s", f.Name, lost, got.Invalid, got.Seconds))
		}
	}
	fmt.Printf("%.0f s: %.0f samples verified, %.0f lost; %.0f grains verified, %.0f lost; %.0f bad; worst age p99 audio %.1f ms, video %.1f ms\n",
		results["seconds"], results["samples_verified"], results["samples_lost"], results["grains_verified"], results["grains_lost"],
		results["bad"], results["audio_age_p99_worst_ms"], results["video_age_p99_worst_ms"])
	if n := results["left_out_by_writers"]; n > 0 {
		fmt.Printf("the writers were late and left %.0f indexes out: the processors end it\n", n)
	}
	return results, wrong
}

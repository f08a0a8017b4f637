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
	"github.com/mxl-stack/mxl-fabrics-agent/tests/witness"
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
	flag.IntVar(&l.batch, "batch", 480, "`samples` an audio writer commits at once")
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
			Options: []string{"--format", "audio", "--channels", strconv.Itoa(l.channels), "--batch", strconv.Itoa(l.batch), "--history-ms", strconv.FormatInt(l.history.Milliseconds(), 10)}})
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
	ctx, stop := context.WithCancel(ctx)
	s := site{mesh: m, flows: all, writer: writer{batch: uint64(l.batch)}}
	defer s.writer.close()
	defer s.running.Wait()
	defer stop()
	if err := s.connect(ctx, l); err != nil {
		return err
	}
	before, err := s.look(ctx)
	if err != nil {
		return err
	}
	marks := make([]witness.Seen, len(s.witnesses))
	for i, w := range s.witnesses {
		marks[i] = w.Mark()
	}
	lag, err := s.watch(ctx, l.duration)
	if err != nil {
		return err
	}
	after, err := s.look(ctx)
	if err != nil {
		return err
	}
	took := after.at.Sub(before.at).Seconds()
	results := map[string]float64{
		"audio_lanes": float64(l.audio), "video_lanes": float64(l.video), "processors": float64(runtime.NumCPU()),
		"samples_lost": 0, "grains_lost": 0, "bad": 0, "seconds": took, "lag_worst_ms": lag,
		"transfers_per_s": float64(after.transfers-before.transfers) / took,
	}
	wrong := s.verdict(marks, l, results)
	stop()
	s.running.Wait()
	results["left_out_by_writer"] = float64(s.writer.leftOut)
	for i, name := range []string{"source", "destination"} {
		results[name+"_cpu_core_percent"] = 100 * (after.cpu[i] - before.cpu[i]) / took
		results[name+"_rss_mib"] = after.rss[i]
	}
	for key, v := range results {
		results[key] = math.Round(v*1000) / 1000
	}
	fmt.Printf("%.0f s: %.0f samples verified, %.0f lost; %.0f grains verified, %.0f lost; %.0f bad; lag at most %.1f ms\n", took,
		results["samples_verified"], results["samples_lost"], results["grains_verified"], results["grains_lost"], results["bad"], lag)
	fmt.Printf("%.0f transfers a second; processor: source agent %.0f %%, destination agent %.0f %% of one\n",
		results["transfers_per_s"], results["source_cpu_core_percent"], results["destination_cpu_core_percent"])
	if s.writer.leftOut > 0 {
		fmt.Printf("the writer was late and left %d indexes out: the processors end it\n", s.writer.leftOut)
	}
	if _, err := mesh.Report(resultFile, results); err != nil {
		return err
	}
	if wrong = errors.Join(wrong, s.wrote); wrong != nil {
		return wrong
	}
	fmt.Println("lanes: every grain and every sample arrived and was right")
	return nil
}

// Command links pulls the cable between two of three hosts again and again and
// takes addresses away and back: how soon the agents say link_down, that they
// retry nothing meanwhile, how soon verified grains arrive afterwards, and that
// flows on other cables lose none. It writes build/results/links.json. Run it as
// root from the top of the tree, after make build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
)

const resultFile = "build/results/links.json"

// Limits of the contract and of the project's own tests.
const (
	downLimit    = 200 * time.Millisecond
	flowingLimit = 2 * time.Second
	foundLimit   = 5 * time.Second
)

func main() {
	repetitions := flag.Int("repetitions", 10, "how `often` the cable is pulled")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *repetitions); err != nil {
		fmt.Fprintln(os.Stderr, "links:", err)
		os.Exit(1)
	}
}

func flowOf(name, domain string, number int) mesh.Flow {
	return mesh.Flow{Name: name, Domain: name, DomainID: domain, ID: fmt.Sprintf("0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f9%03d", number),
		Options: []string{"--format", "v210", "--width", "192", "--height", "108", "--rate", "50", "--history-ms", "3000"}}
}

// site is the plant with the flows on it: a and b send each other one each over
// the cable that is pulled; a's goes to c as well and c's to b.
type site struct {
	plant   *plant.Plant
	a, b, c *plant.Host

	fromA, fromB, fromC mesh.Flow
	atA, atB            *witness // of what crosses the cable
	writers             []*mesh.Process
	untouched           []*mesh.Process // readers; the first of a's flow at c, then c's at b
	found               outcome
}

func run(ctx context.Context, repetitions int) (err error) {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	p, err := plant.New(plant.Options{Binaries: "build/bin", Logs: "build/links"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	s := &site{plant: p, a: p.Hosts[0], b: p.Hosts[1], c: p.Hosts[2],
		fromA: flowOf("from-a", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e51", 1),
		fromB: flowOf("from-b", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e52", 2),
		fromC: flowOf("from-c", "5f4c1d2e-7a3b-4c6d-9e8f-0a1b2c3d4e53", 3)}
	if err := s.begin(ctx); err != nil {
		return err
	}
	fmt.Printf("links: three hosts, a cable for each pair, four replications; logs in %s\n", p.Logs())
	for range repetitions {
		if err := s.pullCable(ctx); err != nil {
			return err
		}
	}
	fmt.Printf("links: cable pulled %d times: link_down after %v at most, flowing %v after its return at most\n",
		repetitions, longest(s.found.Down), longest(s.found.Flowing))
	if err := s.takeAddress(ctx); err != nil {
		return err
	}
	if err := s.endUntouched(); err != nil {
		return err
	}
	if err := s.startWithoutAddress(ctx); err != nil {
		return err
	}
	return s.verdict()
}

func (s *site) begin(ctx context.Context) error {
	if err := s.plant.Start(ctx); err != nil {
		return err
	}
	for _, w := range []struct {
		at   *plant.Host
		flow mesh.Flow
	}{{s.a, s.fromA}, {s.b, s.fromB}, {s.c, s.fromC}} {
		writer, err := w.at.Write(w.flow)
		if err != nil {
			return err
		}
		s.writers = append(s.writers, writer)
	}
	for i, r := range []struct {
		at   *plant.Host
		flow mesh.Flow
	}{{s.b, s.fromA}, {s.c, s.fromA}, {s.a, s.fromB}, {s.b, s.fromC}} {
		if err := r.at.Connect(ctx, i, r.flow); err != nil {
			return err
		}
		if err := r.at.Flowing(ctx, r.flow, 30*time.Second); err != nil {
			return err
		}
	}
	for _, r := range []struct {
		at   *plant.Host
		flow mesh.Flow
	}{{s.c, s.fromA}, {s.b, s.fromC}} {
		reader, err := r.at.Read(r.flow, time.Hour) // until it is stopped
		if err != nil {
			return err
		}
		s.untouched = append(s.untouched, reader)
	}
	var err error
	if s.atA, err = watchMirror(ctx, s.a, s.fromB); err != nil {
		return err
	}
	s.atB, err = watchMirror(ctx, s.b, s.fromA)
	return err
}

// endUntouched stops the readers of flows that no fault touched and takes what
// they say.
func (s *site) endUntouched() error {
	for i, reader := range s.untouched {
		reader.Stop(10 * time.Second)
		got, err := mesh.Result[mesh.Totals](reader)
		if err != nil {
			return err
		}
		// The writers go on: what they leave out from here on is nobody's loss.
		s.found.untouched[i] = got
	}
	return nil
}

func (s *site) verdict() error {
	f := &s.found
	var lost, bad uint64
	for _, w := range s.writers {
		w.Stop(10 * time.Second)
	}
	for i, from := range []int{0, 2} { // s.writers of the untouched flows
		written, err := mesh.Result[mesh.Written](s.writers[from])
		if err != nil {
			return err
		}
		lost += f.untouched[i].LostInTransit(written)
		bad += f.untouched[i].Bad + f.untouched[i].Invalid
	}
	bad += s.atA.bad.Load() + s.atB.bad.Load()
	verified := s.atA.verified.Load() + s.atB.verified.Load() + f.untouched[0].Verified + f.untouched[1].Verified
	text, err := mesh.Report(resultFile, map[string]any{
		"repetitions": len(f.Flowing) / 2, "grains_verified": verified, "bad_grains": bad, "untouched_grains_lost": lost,
		"link_down_p50_ms": ms(median(f.Down)), "link_down_worst_ms": ms(longest(f.Down)),
		"link_down_peers_worst_ms": ms(longest(f.Peers)), "link_down_replications_worst_ms": ms(longest(f.Replications)),
		"link_down_metric_worst_ms": ms(longest(f.Metric)), "link_down_log_worst_ms": ms(longest(f.Log)),
		"retries_while_down": f.Retries, "targets_kept_while_down": f.TargetsKept,
		"flowing_after_up_p50_ms": ms(median(f.Flowing)), "flowing_after_up_worst_ms": ms(longest(f.Flowing)),
		"address_gone_link_down_worst_ms": ms(longest(f.AddressDown)), "address_back_flowing_worst_ms": ms(longest(f.AddressBack)),
		"address_found_s": longest(f.Found).Seconds(),
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s\n", text)
	switch {
	case lost > 0:
		return fmt.Errorf("%d grains of flows on other cables were lost", lost)
	case bad > 0:
		return fmt.Errorf("%d grains were bad", bad)
	case longest(f.Down) > downLimit || longest(f.AddressDown) > downLimit:
		return fmt.Errorf("link_down came later than %v", downLimit)
	case longest(f.Flowing) > flowingLimit || longest(f.AddressBack) > flowingLimit:
		return fmt.Errorf("flows came back later than %v", flowingLimit)
	case longest(f.Found) > foundLimit:
		return fmt.Errorf("an address was found later than %v", foundLimit)
	case f.Retries > 0 || f.TargetsKept > 0:
		return fmt.Errorf("%d retries and %d targets while the link was down", f.Retries, f.TargetsKept)
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func longest(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all).Round(100 * time.Microsecond)
}

func median(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(all))[len(all)/2]
}

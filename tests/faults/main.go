// Command faults does to three hosts what happens to hosts: agents, registry and
// writers that are killed, terminated or stand still, cables pulled, addresses
// taken away, writers that come back otherwise or elsewhere, full filesystems,
// truncated files, hostile and outdated peers. Every grain and sample that
// arrives anywhere is verified meanwhile.
//
// It writes build/results/faults.json and faults.svg, prints a table, and fails
// when anything was wrong, lost on a path that the fault does not touch, too slow
// to come back, or did not come back. FAULT_ONLY selects scenarios (a regular
// expression), FAULT_REPEATS is how often each runs. It takes root. Run it from
// the top of the tree, after make build.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/mesh"
)

const (
	resultFile = "build/results/faults.json"
	plotFile   = "build/results/faults.svg"
)

type options struct {
	binaries string
	logs     string
	only     *regexp.Regexp
	repeats  int
	seed     uint64
}

func main() {
	var o options
	flag.StringVar(&o.binaries, "bin", "build/bin", "`directory` of the built programs")
	flag.StringVar(&o.logs, "logs", "build/faults", "`directory` for logs")
	flag.IntVar(&o.repeats, "repeats", 3, "how `often` each scenario runs")
	flag.Uint64Var(&o.seed, "seed", uint64(time.Now().UnixNano()), "seed of the random moments")
	only := flag.String("only", "", "run the scenarios whose whole name this `expression` matches")
	list := flag.Bool("list", false, "list the scenarios")
	flag.Parse()
	var err error
	if o.only, err = regexp.Compile("^(?:" + *only + ")$"); err != nil {
		fmt.Fprintln(os.Stderr, "faults: -only:", err)
		os.Exit(2)
	}
	if *only == "" {
		o.only = regexp.MustCompile("")
	}
	if *list {
		for _, sc := range scenarios() {
			fmt.Printf("%-28s %s\n", sc.name, sc.about)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	switch err := all(ctx, o); {
	case errors.Is(err, plant.ErrNotRoot):
		fmt.Fprintln(os.Stderr, "faults: not run:", err)
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "faults:", err)
		os.Exit(1)
	}
}

// scenarios are the whole matrix.
func scenarios() []scenario {
	var list []scenario
	for _, family := range [][]scenario{processes(), writers(), links(), files(), peers()} {
		list = append(list, family...)
	}
	return list
}

// all runs what was selected: first the mesh of cables, then the switch.
func all(ctx context.Context, o options) error {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	var results []*result
	for _, switched := range []bool{false, true} {
		var chosen []scenario
		for _, sc := range scenarios() {
			if sc.switched == switched && o.only.MatchString(sc.name) {
				chosen = append(chosen, sc)
			}
		}
		if len(chosen) == 0 {
			continue
		}
		some, err := matrix(ctx, o, switched, chosen)
		results = append(results, some...)
		if err != nil {
			return errors.Join(err, report(results))
		}
	}
	if len(results) == 0 {
		return errors.New("no scenario was selected")
	}
	return report(results)
}

// matrix runs scenarios in one studio.
func matrix(ctx context.Context, o options, switched bool, chosen []scenario) (results []*result, err error) {
	logs, where := filepath.Join(o.logs, "mesh"), "a full mesh of cables"
	if switched {
		logs, where = filepath.Join(o.logs, "switch"), "a switch"
	}
	fmt.Printf("faults: three hosts at %s, %d scenarios of %d runs, seed %d, logs in %s\n", where, len(chosen), o.repeats, o.seed, logs)
	began := time.Now()
	s, err := studio.Open(ctx, studio.Options{Binaries: o.binaries, Logs: logs, Switched: switched})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	fmt.Printf("faults: %d flows on %d paths, all verified, after %.1f s\n", len(s.Flows), len(s.Paths()), time.Since(began).Seconds())
	random := rand.New(rand.NewPCG(o.seed, 0))
	for i, sc := range chosen {
		r := &result{Scenario: sc.name, About: sc.about, Limit: sc.limit}
		results = append(results, r)
		for range o.repeats {
			sc.once(ctx, s, random, r)
			if ctx.Err() != nil {
				return results, ctx.Err()
			}
		}
		progress(i+1, len(chosen), r)
	}
	return results, nil
}

func progress(number, of int, r *result) {
	state, failures := "ok", ""
	if len(r.Failures) > 0 {
		state, failures = "FAILED", fmt.Sprintf(": %q", r.Failures)
	}
	fmt.Printf("%-6s %2d of %d  %-28s worst %5.0f ms, lost elsewhere %d, missed %d, left out by writers %d%s\n", state, number, of, r.Scenario, ms(r.worst()),
		r.LostUntouched, r.Missed, r.LeftOut, failures)
}

// report prints and writes everything, and is the verdict.
func report(results []*result) error {
	if len(results) == 0 {
		return nil
	}
	table(os.Stdout, results)
	if _, err := mesh.Report(resultFile, figures(results)); err != nil {
		return err
	}
	if err := drawRecoveries(plotFile, results); err != nil {
		return err
	}
	if err := verdict(results); err != nil {
		return err
	}
	fmt.Printf("\nfaults: %d scenarios, every one as it should be\n", len(results))
	return nil
}

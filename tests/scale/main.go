// Command scale measures how the control plane's cost grows with the plant. A host
// that mirrors everything is watched at several sizes: of ten flows a simulated
// peer offers eight and the host itself writes two. It writes
// build/results/scale.json and build/results/scale.svg, and fails when a cost grows
// faster than the plant. Run it from the top of the tree, after make build.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/measured"
)

const (
	resultFile = "build/results/scale.json"
	plotFile   = "build/results/scale.svg"
	// flowsPerHost is how the plant is made up.
	flowsPerHost, localPerHost = 10, 2
	clients                    = 20
	// limitExponent is how fast a cost may grow: the slope of its logarithm over
	// that of the number of flows. Sorting and caches that no longer hold everything
	// are what is allowed above 1.
	limitExponent = 1.15
	// busyPercent is from where on an event is not judged: what the agent does until
	// the clients of a busy machine have heard of it is most of its cost then.
	busyPercent = 75.0
)

func main() {
	steady := flag.Duration("steady", 8*time.Second, "how `long` each size is watched")
	sizes := flag.String("hosts", "10,50,100,200,400", "the `sizes` of the plant")
	program := flag.String("agent", "build/bin/mxl-fabrics-agent", "the `program` that is measured")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *program, *sizes, *steady); err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, program, sizes string, steady time.Duration) error {
	_ = os.Remove(resultFile)
	if err := os.MkdirAll(filepath.Dir(resultFile), 0o755); err != nil {
		return err
	}
	result := map[string]any{}
	curves := map[string][]point{}
	before, err := measured.MachineTimes()
	if err != nil {
		return err
	}
	for text := range strings.SplitSeq(sizes, ",") {
		var hosts int
		if _, err := fmt.Sscan(text, &hosts); err != nil || hosts < 1 {
			return fmt.Errorf("hosts: %q is not a list of numbers", sizes)
		}
		p, err := newPlant(program, hosts)
		if err != nil {
			return err
		}
		costs, err := p.costs(ctx, steady)
		p.close()
		if err != nil {
			return fmt.Errorf("%d hosts: %w", hosts, err)
		}
		flows := hosts * flowsPerHost
		fmt.Printf("scale: %d hosts, %d flows:", hosts, flows)
		for _, c := range costs {
			result[fmt.Sprintf("%s_at_%d_flows", c.name, flows)] = rounded(c.value)
			curves[c.name] = append(curves[c.name], point{float64(flows), c.value})
			fmt.Printf(" %s %.3g", c.name, c.value)
		}
		fmt.Println()
	}
	after, err := measured.MachineTimes()
	if err != nil {
		return err
	}
	busy := 100 * (after.Busy - before.Busy) / (after.All - before.All)
	result["machine_busy_percent"], result["event_judged"] = rounded(busy), busy < busyPercent
	var steep []string
	for _, name := range growing {
		e := exponent(curves[name])
		result[name+"_exponent"] = rounded(e)
		if e > limitExponent && (name != "event_cpu_ms" || busy < busyPercent) {
			steep = append(steep, fmt.Sprintf("%s grows with the power of %.2f", name, e))
		}
	}
	result["hosts_max"], result["flows_max"] = largest(curves)/flowsPerHost, largest(curves)
	result["pass"] = len(steep) == 0
	if err := draw(plotFile, curves); err != nil {
		return err
	}
	body, err := json.MarshalIndent(result, "", "  ")
	if err != nil {
		return err
	}
	fmt.Println(string(body))
	if err := os.WriteFile(resultFile, append(body, '\n'), 0o644); err != nil {
		return err
	}
	if len(steep) > 0 {
		return fmt.Errorf("worse than linear: %s", strings.Join(steep, "; "))
	}
	return nil
}

func largest(curves map[string][]point) float64 {
	most := 0.0
	for _, c := range curves {
		most = max(most, slices.MaxFunc(c, func(a, b point) int { return int(a.flows - b.flows) }).flows)
	}
	return most
}

// Command queries runs every query of dashboard and alerts against a Prometheus
// that scrapes running agents, and says which of the dashboard's return no data.
// Run it in tests/deploy.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/deploy"
)

// mayBeEmpty are queries without data on a plant where nothing is wrong and no
// RDMA device is there.
var mayBeEmpty = []string{
	`"RDMA retransmissions"`, `"Queue pairs established"`, `"Lane stalls"`, `annotation "Mirror rebuilt"`,
}

func main() {
	prometheus := flag.String("prometheus", "http://127.0.0.1:9090", "`URL`")
	within := flag.Duration("within", 0, "how long queries may go without data")
	root := flag.String("root", "../..", "top of the tree")
	flag.Parse()
	if err := run(*prometheus, *root, *within); err != nil {
		fmt.Fprintln(os.Stderr, "queries:", err)
		os.Exit(1)
	}
}

func run(prometheus, root string, within time.Duration) error {
	panels, err := deploy.DashboardQueries(root)
	if err != nil {
		return err
	}
	alerts, err := deploy.AlertQueries(root)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(within)
	for {
		var empty, excused []string
		filled := 0
		for _, q := range panels {
			n, err := ask(prometheus, q.Expr)
			switch {
			case err != nil:
				return fmt.Errorf("%s: %w", q.Where, err)
			case n > 0:
				filled++
			case slices.ContainsFunc(mayBeEmpty, func(part string) bool { return strings.Contains(q.Where, part) }):
				excused = append(excused, q.Where)
			default:
				empty = append(empty, q.Where)
			}
		}
		if len(empty) == 0 {
			fmt.Printf("%d queries of the dashboard, %d with data; without, as there is no fault and no RDMA device: %s\n", len(panels), filled, strings.Join(excused, ", "))
			break
		}
		if !time.Now().Before(deadline) {
			return fmt.Errorf("no data: %s", strings.Join(empty, "; "))
		}
		time.Sleep(time.Second)
	}
	var firing []string
	for _, q := range alerts {
		n, err := ask(prometheus, q.Expr)
		if err != nil {
			return fmt.Errorf("%s: %w", q.Where, err)
		}
		if n > 0 {
			firing = append(firing, q.Where)
		}
	}
	fmt.Printf("%d queries of alerts, true now: %s\n", len(alerts), strings.Join(firing, ", "))
	return nil
}

// ask returns the number of series of an instant query.
func ask(prometheus, expr string) (int, error) {
	answer, err := (&http.Client{Timeout: 10 * time.Second}).Get(prometheus + "/api/v1/query?" + url.Values{"query": {expr}}.Encode())
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		return 0, err
	}
	if body.Status != "success" {
		return 0, fmt.Errorf("%s: %s", body.Error, expr)
	}
	return len(body.Data.Result), nil
}

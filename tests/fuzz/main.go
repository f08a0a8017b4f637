// Command fuzz runs fuzz targets of the module, each for the given time, in a memory
// limit, and prints a table. It fails when a target finds something, does not come to
// an end or needs more memory than it may. Run it from the top of the tree.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const resultFile = "build/results/fuzz.json"

func main() {
	each := flag.Duration("time", time.Minute, "how `long` each target runs")
	memory := flag.Int("memory", 1024, "`MiB` of heap that a process of a target may have")
	jobs := flag.Int("jobs", 2, "how `many` targets run at once, each on one worker")
	only := flag.String("only", "", "run only targets whose package and name match this `pattern`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := fuzz(ctx, *each, *memory, *jobs, *only); err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
}

func fuzz(ctx context.Context, each time.Duration, memory, jobs int, only string) error {
	_ = os.Remove(resultFile) // a run that fails early must not leave an older result
	pattern, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	targets, err := list(ctx, pattern)
	if err != nil {
		return err
	}
	if len(targets) == 0 {
		return fmt.Errorf("no fuzz target matches %q", only)
	}
	binaries, err := os.MkdirTemp("", "fuzz-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(binaries)
	if err := compile(ctx, binaries, targets); err != nil {
		return err
	}
	cache, err := cacheDirectory(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("%d targets, %v each, %d at a time, at most %d MiB a process\n\n%s\n", len(targets), each, jobs, memory, header)
	results := make([]result, len(targets))
	next := make(chan int)
	var workers sync.WaitGroup
	var printing sync.Mutex
	for range jobs {
		workers.Go(func() {
			for i := range next {
				r := run(ctx, targets[i], limits{each: each, memoryMiB: memory, cache: cache})
				printing.Lock()
				fmt.Println(r.row())
				printing.Unlock()
				results[i] = r
			}
		})
	}
	for i := range targets {
		next <- i
	}
	close(next)
	workers.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return report(results, each)
}

// target is one fuzz function.
type target struct {
	pkg    string // import path
	dir    string // of the package, relative to the top
	name   string
	binary string // compiled tests of the package, with coverage counters
}

const module = "github.com/mxl-stack/mxl-fabrics-agent/"

// list finds every fuzz target in the test files that this platform builds. It reads
// the source: to ask every package's tests would build all of them.
func list(ctx context.Context, only *regexp.Regexp) ([]target, error) {
	cmd := exec.CommandContext(ctx, goTool(), "list", "-f",
		`{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}`, "./...")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var targets []target
	for line := range strings.Lines(string(out)) {
		pkg, file, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		names, err := targetsIn(file)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			dir := strings.TrimPrefix(pkg, module)
			if only.MatchString(dir + " " + name) {
				targets = append(targets, target{pkg: pkg, dir: dir, name: name})
			}
		}
	}
	slices.SortStableFunc(targets, func(a, b target) int {
		return cmp.Or(cmp.Compare(a.dir, b.dir), cmp.Compare(a.name, b.name))
	})
	return targets, nil
}

// targetsIn are the functions FuzzX(*testing.F) of one file.
func targetsIn(file string) (names []string, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("find the targets: %w", err)
	}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") || len(f.Type.Params.List) != 1 {
			continue
		}
		if star, ok := f.Type.Params.List[0].Type.(*ast.StarExpr); ok {
			if s, ok := star.X.(*ast.SelectorExpr); ok && s.Sel.Name == "F" {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names, nil
}

// compile builds the tests of each package once. With -fuzz the binary has the
// counters that guide the search.
func compile(ctx context.Context, into string, targets []target) error {
	built := make(map[string]string)
	for i := range targets {
		t := &targets[i]
		if built[t.pkg] == "" {
			file := filepath.Join(into, strings.ReplaceAll(t.dir, "/", "-")+".test")
			cmd := exec.CommandContext(ctx, goTool(), "test", "-c", "-fuzz", ".", "-o", file, t.pkg)
			cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("compile the tests of %s: %w", t.dir, err)
			}
			built[t.pkg] = file
		}
		t.binary = built[t.pkg]
	}
	return nil
}

// cacheDirectory is where go test -fuzz keeps the inputs it found.
func cacheDirectory(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, goTool(), "env", "GOCACHE").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOCACHE: %w", err)
	}
	return filepath.Join(strings.TrimSpace(string(out)), "fuzz"), nil
}

func goTool() string { return cmp.Or(os.Getenv("GO"), "go") }

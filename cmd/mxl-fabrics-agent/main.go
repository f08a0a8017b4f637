// Command mxl-fabrics-agent mirrors MXL flows between hosts. Without arguments it
// is the agent, whose settings are environment variables; with one it asks a
// running agent, or looks at the host: explain, status, events, doctor.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
	_ "github.com/mxl-stack/mxl-fabrics-agent/agent/capability" // raises file capabilities
	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
	_ "github.com/mxl-stack/mxl-fabrics-agent/fabrics/timerslack" // quiets the runtime's monitor
)

// Exit codes (contract, "Exit codes").
const (
	exitUnavailable   = 75
	exitConfiguration = 78
	exitSignal        = 143
)

// collectAt is the garbage collector's target (GOGC) unless the operator sets one:
// the heap is small beside what lanes map, and each collection takes processors
// from them.
const collectAt = 200

func main() { os.Exit(run()) }

func run() int {
	// First of all: until then a signal ends the process the way some library
	// that libfabric brings along has chosen (libinfinipath exits with 1).
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	if len(os.Args) > 1 {
		return runCommand(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	}
	store, err := config.Load(config.Machine{})
	if err != nil {
		return invalid(err)
	}
	cfg := store.Config()
	log := slog.New(logging.NewHandler(os.Stdout, cfg.LogLevel))
	go endInTime(signals, cfg.ShutdownTimeout.Duration(), log)
	// net/http prints what a peer sends unasked, as often as the peer likes and not
	// as JSON; what matters of it is the error of a call.
	stdlog.SetOutput(io.Discard)
	for _, w := range store.Warnings() {
		attrs := make([]any, 0, 2*len(w.Fields))
		for k, v := range w.Fields {
			attrs = append(attrs, k, v)
		}
		log.Warn(w.Event, attrs...)
	}
	if err := cfg.CheckScanPath(); err != nil {
		log.Error("mxl_root_missing", "path", cfg.ScanPath)
		return invalid(err)
	}
	if _, chosen := os.LookupEnv("GOGC"); !chosen {
		debug.SetGCPercent(collectAt)
	}
	handed, _ := agent.TakeRestart(os.Environ())
	var a *agent.Agent
	err = agent.AwaitHostAddress(ctx, store, log)
	if err == nil {
		a, err = agent.New(store, log)
	}
	if err == nil {
		a.Restarted(handed)
		err = a.Start(ctx)
	}
	var setting *config.Error
	switch {
	case errors.As(err, &setting):
		return invalid(err)
	case ctx.Err() != nil:
		return exitSignal
	case err != nil:
		return fatal(err)
	}

	if err := a.Run(ctx); err != nil {
		return fatal(err)
	}
	if ctx.Err() != nil {
		return exitSignal
	}
	if next, wanted := a.RestartWanted(); wanted {
		return fatal(restart(next))
	}
	return 0
}

// invalid reports a setting that cannot be used, on one line of stderr.
func invalid(err error) int {
	if werr := config.WriteInvalid(os.Stderr, err); werr != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return exitConfiguration
}

// fatal reports a start that failed for another reason.
func fatal(err error) int {
	line, merr := json.Marshal(map[string]string{"level": "error", "event": "fatal", "error": err.Error()})
	if merr != nil {
		line = []byte(err.Error())
	}
	fmt.Fprintln(os.Stderr, string(line))
	return exitUnavailable
}

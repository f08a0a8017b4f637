// Command mxl-pattern writes, reads, verifies and measures MXL flows whose payload is a known pattern. It is the media
// function of this project's tests and an operator's first tool on a host.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // something was bad, lost or too slow, or the flow could not be used
	exitUsage  = 2
)

const usage = `mxl-pattern writes and verifies MXL flows with a known payload.

  mxl-pattern write [options] DOMAIN            write a flow; creates it
  mxl-pattern read  [options] DOMAIN FLOW-ID    follow a flow and verify every byte
  mxl-pattern rate  [options] DOMAIN FLOW-ID    grains or samples per second of the head
  mxl-pattern info  [options] PATH              domains and flows of a domain or of an MXL root
  mxl-pattern hold  [options] DOMAIN FLOW-ID    map a flow and sleep until a signal

DOMAIN is a domain directory. Options may come before or after it; "mxl-pattern COMMAND --help" lists them.

Each byte of the payload is a function of flow id, index and offset, so a mirror on another host is verified by its flow
id alone. Times are TAI. SIGINT and SIGTERM end every command with its totals.

Exit codes: 0 as it should be; 1 bad, lost or too few grains or samples, or an error; 2 wrong usage.

A 1080p50 flow on one host and its reader:

  mxl-pattern write --domain-id 0c1e…  --flow-id 5fbe… --duration 60s /dev/shm/mxl/studio
  mxl-pattern read --duration 10s --require-rate 49.9 /dev/shm/mxl/studio 5fbe…
`

// terminal is where a command writes: results to out, what goes on to err.
type terminal struct{ out, err io.Writer }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], terminal{os.Stdout, os.Stderr}))
}

// errUsage marks errors of the command line.
var errUsage = errors.New("usage")

// errVerdict ends a command whose result, already printed, is not as required.
var errVerdict = errors.New("not as required")

func run(ctx context.Context, args []string, t terminal) int {
	commands := map[string]func(context.Context, []string, terminal) error{
		"write": runWrite, "read": runRead, "rate": runRate, "info": runInfo, "hold": runHold,
	}
	if len(args) == 0 || args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		fmt.Fprint(t.err, usage)
		if len(args) == 0 {
			return exitUsage
		}
		return exitOK
	}
	command, ok := commands[args[0]]
	if !ok {
		fmt.Fprintf(t.err, "mxl-pattern: no command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	err := command(ctx, args[1:], t)
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, errUsage):
		fmt.Fprintf(t.err, "mxl-pattern %s: %v\n", args[0], err)
		return exitUsage
	default:
		fmt.Fprintf(t.err, "mxl-pattern %s: %v\n", args[0], err)
		return exitFailed
	}
}

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
)

// Exit codes of the commands, for scripts and for monitoring: 0 to 3 are those
// of monitoring plug-ins, 64 is EX_USAGE of sysexits.h, as 75 and 78 are from there.
const (
	exitOK          = 0
	exitWarning     = 1 // works, and will hurt; or nobody asks for the flow
	exitBroken      = 2 // something does not work
	exitUnreachable = 3 // the agent does not answer: nothing is known
	exitUsage       = 64
)

const usage = `mxl-fabrics-agent                          run the agent; settings are environment variables
mxl-fabrics-agent explain <domain> <flow>  why a flow is, or is not, on this host
mxl-fabrics-agent status                   what the agent does, and what is wrong
mxl-fabrics-agent events                   the agent's events as they happen
mxl-fabrics-agent doctor                   what is wrong with this host; needs no running agent
mxl-fabrics-agent interface <provider> <address>
                                           whether libfabric finds an interface with the address
mxl-fabrics-agent version

  --json        machine-readable output
  --url URL     the agent's address (default http://127.0.0.1:$WEB_PORT, 8095 when that is not set)
  --for DUR     events: stop after this long, e.g. 10s
  --count N     events: stop after that many

Exit codes: 0 all is well, 1 only warnings (explain: nobody asks for the flow),
2 something is broken, 3 the agent does not answer, 64 usage.
`

// command is one run of a command.
type command struct {
	ctx            context.Context
	stdout, stderr io.Writer
	environ        []string
	args           []string // without options
	options        options
}

// runCommand runs the command that args name; args has at least one element.
func runCommand(ctx context.Context, args []string, environ []string, stdout, stderr io.Writer) int {
	commands := map[string]struct {
		arguments int
		run       func(*command) int
	}{
		"explain":   {2, (*command).explain},
		"status":    {0, (*command).status},
		"events":    {0, (*command).events},
		"doctor":    {0, (*command).doctor},
		"interface": {2, (*command).lookAtInterface},
		"version":   {0, (*command).version},
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	chosen, known := commands[args[0]]
	if !known {
		fmt.Fprintf(stderr, "mxl-fabrics-agent: unknown command %q\n\n%s", args[0], usage)
		return exitUsage
	}
	c := &command{ctx: ctx, stdout: stdout, stderr: stderr, environ: environ}
	err := c.parse(args[1:])
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err == nil && len(c.args) != chosen.arguments:
		err = fmt.Errorf("%s takes %d arguments, not %d", args[0], chosen.arguments, len(c.args))
	}
	if err != nil {
		fmt.Fprintf(stderr, "mxl-fabrics-agent: %v\n\n%s", err, usage)
		return exitUsage
	}
	return chosen.run(c)
}

func (c *command) version() int {
	fmt.Fprintf(c.stdout, "%s\n", agent.Version)
	return exitOK
}

// failed reports why a command could not do its work.
func (c *command) failed(err error) int {
	fmt.Fprintf(c.stderr, "mxl-fabrics-agent: %v\n", err)
	var status *statusError
	if errors.As(err, &status) && status.Status < 500 && status.Status != http.StatusTooManyRequests {
		return exitUsage
	}
	return exitUnreachable
}

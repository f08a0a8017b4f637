package main

import (
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/doctor"
)

func (c *command) doctor() int {
	store, invalid := config.Load(config.Machine{Environ: c.environ, Untouched: true})
	if invalid != nil {
		// The defaults, and no file: what is in one may be the fault.
		var err error
		if store, err = config.Load(config.Machine{Environ: []string{"STATE_DIR=/dev/null"}, Untouched: true}); err != nil {
			return c.failed(invalid)
		}
	}
	report := doctor.Examine(c.ctx, doctor.Host(), store.Config(), invalid)
	if c.options.json {
		c.printJSON(report)
	} else {
		for _, f := range report.Findings {
			fmt.Fprintf(c.stdout, "%-5s %-21s %s\n", f.State, f.Check, f.What)
			if f.Remedy != "" {
				fmt.Fprintf(c.stdout, "%-27s > %s\n", "", f.Remedy)
			}
		}
	}
	switch report.Worst() {
	case doctor.Fail:
		return exitBroken
	case doctor.Warn:
		return exitWarning
	}
	return exitOK
}

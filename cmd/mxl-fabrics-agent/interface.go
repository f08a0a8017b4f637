package main

import (
	"fmt"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// lookAtInterface tells whether libfabric, in a process that begins now, finds an
// interface of a provider that has an address. A running agent asks this where
// its own libfabric keeps what it found first.
func (c *command) lookAtInterface() int {
	provider, address := c.args[0], c.args[1]
	if err := fabrics.Look(fabrics.Provider(provider), address); err != nil {
		fmt.Fprintf(c.stderr, "mxl-fabrics-agent: %v\n", err)
		return exitBroken
	}
	fmt.Fprintf(c.stdout, "provider %s of libfabric %s has an interface for %s\n", provider, fabrics.Version(), address)
	return exitOK
}

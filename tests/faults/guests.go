package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/plant"
	"github.com/mxl-stack/mxl-fabrics-agent/tests/studio"
)

// guestDomain is a domain id that no other run has.
func guestDomain(random *rand.Rand) string {
	return fmt.Sprintf("5f4c1d2e-7a3b-4c6d-9e8f-%012x", random.Uint64()>>16)
}

// removeDomain removes a guest's domain from every host.
func removeDomain(f *studio.Flow, hosts []*plant.Host) error {
	var errs []error
	for _, h := range hosts {
		errs = append(errs, os.RemoveAll(f.DomainDirectory(h)))
	}
	return errors.Join(errs...)
}

package agent

import (
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// namingRest is the time from a marker that could not be written to the next try.
const namingRest = time.Minute

// naming is the last try to make the marker of a mirror domain name its source.
type naming struct {
	working bool
	failed  string // as logged; empty when it went well
	next    time.Time
}

// nameSources has the marker of every mirror domain follow its origin to another host.
func (a *Agent) nameSources(p plan) {
	for i := range p.Outcome.Domains {
		if d := &p.Outcome.Domains[i]; d.Source != "" {
			a.mirrors.nameSource(d.DomainID, d.Source)
		}
	}
	a.mirrors.forgetNaming(p.Outcome.Domains)
}

// nameSource writes the source of a mirror domain into its marker, beside the loop. It
// is no deed: replications go on meanwhile. A failure is logged once, and costs nothing
// before this agent starts again.
func (m *mirrorDeeds) nameSource(domainID, host string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.naming[domainID]
	if last.working || m.now().Before(last.next) {
		return
	}
	m.naming[domainID] = naming{working: true, failed: last.failed}
	m.wg.Go(func() {
		changed, err := m.room.NameSource(domainID, host)
		m.named(domainID, host, last.failed, changed, err)
		m.wake()
	})
}

func (m *mirrorDeeds) named(domainID, host, before string, changed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err == nil:
		delete(m.naming, domainID)
		if !changed {
			return // by a pass that had not seen it yet
		}
		m.log.Info("mirror_source_named", "domain_id", domainID, "peer", host)
	case !failed(err):
		delete(m.naming, domainID) // it is being removed, or gone
	default:
		m.naming[domainID] = naming{failed: err.Error(), next: m.now().Add(namingRest)}
		if err.Error() != before {
			m.log.Warn("mirror_source_name_failed", "domain_id", domainID, "peer", host, "error", err)
		}
	}
}

// forgetNaming drops what is remembered of domains that are not there.
func (m *mirrorDeeds) forgetNaming(domains []mirror.DomainStep) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.naming) == 0 {
		return
	}
	there := make(map[string]bool, len(domains))
	for i := range domains {
		there[domains[i].DomainID] = true
	}
	for id, n := range m.naming {
		if !there[id] && !n.working {
			delete(m.naming, id)
		}
	}
}

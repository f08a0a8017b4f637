package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// deedResults carries what the deeds beside the loop found to the ledger, which
// only the loop may touch. A result is there before anything of it can be seen
// on disk, and the loop takes it before it looks.
type deedResults struct {
	mu   sync.Mutex
	list []func(*mirror.Ledger)
}

func (d *deedResults) tell(result func(*mirror.Ledger)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = append(d.list, result)
}

// note says that a mirror is, or was, removed for a reason; an empty reason takes
// that back.
func (d *deedResults) note(k mirror.Key, reason mirror.Reason) {
	d.tell(func(l *mirror.Ledger) {
		if reason == "" {
			l.NotRemoved(k)
		} else {
			l.Removed(k, reason)
		}
	})
}

func (d *deedResults) blocked(k mirror.Key, err error) {
	d.tell(func(l *mirror.Ledger) { l.Blocked(k, err) })
}

func (d *deedResults) made(k mirror.Key, err error) {
	d.tell(func(l *mirror.Ledger) { l.Made(k, err) })
}

func (d *deedResults) take() []func(*mirror.Ledger) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := d.list
	d.list = nil
	return list
}

func (a *Agent) takeResults() {
	for _, result := range a.results.take() {
		result(a.loop.ledger)
	}
}

// tell writes the log lines and events of a pass.
func (a *Agent) tell(o mirror.Outcome) {
	for _, e := range o.Events {
		e.Log(a.log)
		switch e.Kind {
		case mirror.EventFlowKept:
			a.page.FlowRefused(string(e.Reason))
		case mirror.EventDomainBusy:
			a.page.DomainRefused(string(e.Reason))
		}
		if name := e.Name(); name != "" {
			a.hub.Publish(httpapi.EventMirror, e.Key.String()+"/"+name, e.View())
		}
	}
}

// logInTheWay has a directory logged that is where an offered flow's mirror would
// go and is not ours.
func (a *Agent) logInTheWay(p plan) {
	var now map[string]bool
	for i := range p.Outcome.Flows {
		s := &p.Outcome.Flows[i]
		if _, offered := p.offer(s.Key); !offered || now[s.DomainID] || !p.Facts.Foreign[s.DomainID] || p.Facts.Filter.Excludes(s.Key) {
			continue
		}
		if now == nil {
			now = map[string]bool{}
		}
		now[s.DomainID] = true
		if !a.loop.inTheWay[s.DomainID] {
			a.room.InTheWay(s.DomainID)
		}
	}
	a.loop.inTheWay = now
}

// removeDomains starts the removal of every mirror domain whose time has come.
func (a *Agent) removeDomains(ctx context.Context, p plan) {
	for _, d := range p.Outcome.Domains {
		if !d.Go() {
			continue
		}
		reason := d.Reason
		a.mirrors.removeDomain(ctx, d.DomainID, flowsOf(p, d.DomainID), reason, func(_ mirror.Removal, err error) {
			switch {
			case err == nil:
				a.page.DomainRemoved(string(reason))
			case failed(err):
				a.page.DomainRefused(string(reason))
			}
		})
	}
}

// failed says whether an error means that something stays that should go; not
// when it went otherwise, or another deed is at work on it, nor for readers, whom the
// next pass tells and counts.
func failed(err error) bool {
	return !errors.Is(err, mirror.ErrBusy) && !errors.Is(err, mirror.ErrNotMirror) && !errors.Is(err, mirror.ErrRemoving) && !errors.Is(err, mirror.ErrClosed)
}

// flowsOf lists the mirror flows of a domain that are on disk.
func flowsOf(p plan, domainID string) []mirror.Key {
	var list []mirror.Key
	for _, s := range p.Outcome.Flows {
		if s.DomainID == domainID && s.OnDisk {
			list = append(list, s.Key)
		}
	}
	return list
}

// removeFlows starts the removal of every single mirror flow whose time has
// come.
func (a *Agent) removeFlows(ctx context.Context, p plan) {
	for i := range p.Outcome.Flows {
		s := &p.Outcome.Flows[i]
		if s.Do != mirror.Remove || s.Guard != mirror.NoGuard {
			continue
		}
		reason := s.Reason
		a.mirrors.removeFlow(ctx, s.Key, reason, s.Missing, func(err error) {
			switch {
			case err == nil:
				a.page.FlowRemoved(string(reason))
			case failed(err):
				a.page.FlowRefused(string(reason))
			}
		})
	}
}

// once logs an error when it is another one than before.
type once struct {
	mu   sync.Mutex
	last map[string]string
}

func (o *once) log(log *slog.Logger, event string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last == nil {
		o.last = map[string]string{}
	}
	if o.last[event] == err.Error() {
		return
	}
	o.last[event] = err.Error()
	log.Warn(event, "error", err)
}

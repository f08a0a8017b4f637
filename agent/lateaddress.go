package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

const (
	// rescanEvery bounds how often libfabric looks for interfaces again (agent API
	// reference §16.7).
	rescanEvery = 5 * time.Second
	// lateForgotten is how long an address is remembered that nothing asks for any
	// more; set-ups that fail are tried again within 30 s.
	lateForgotten = time.Minute
	// lateLookMax is the longest pause between two looks of another process.
	lateLookMax = 5 * time.Minute
)

// lateAddress is an address that a provider does not know although an interface
// of this host holds it with carrier.
type lateAddress struct {
	Provider  fabrics.Provider
	Address   string
	Interface string
}

// lateState is what is known of a lateAddress where libfabric cannot look again.
type lateState struct {
	askedAt time.Time // by a set-up
	lookAt  time.Time // when another process looks for it next
	wait    time.Duration
	visible bool // another process has found it: a restart would, too
}

// lateAddresses deals with addresses that came after libfabric's first look at
// the interfaces: the verbs provider keeps what it found then. libfabric looks
// again where it can (since 2.2); otherwise a process that starts now tells
// whether a restart of this one would help.
type lateAddresses struct {
	canRescan bool
	version   string
	rescan    func(p fabrics.Provider, address string) error
	look      func(ctx context.Context, p fabrics.Provider, address string) bool // in another process
	link      func(address string) peers.Link
	now       func() time.Time
	spawn     func(func())
	log       *slog.Logger

	mu        sync.Mutex
	rescanned time.Time
	said      map[lateAddress]string // outcome last logged
	late      map[lateAddress]*lateState
	tried     map[string]bool // addresses for which the agent has restarted before
	looking   bool
}

// target and source make functions that open lanes do so with open.
func (l *lateAddresses) target(f func(targetSetup) (targetLane, error)) func(targetSetup) (targetLane, error) {
	return func(s targetSetup) (lane targetLane, err error) {
		err = l.open(s.Provider, s.Address, func() (err error) { lane, err = f(s); return err })
		return lane, err
	}
}

type sourceOpener = func(domainPath string, flow uuid.UUID, provider fabrics.Provider, address string) (sourceLane, error)

func (l *lateAddresses) source(f sourceOpener) sourceOpener {
	return func(domainPath string, flow uuid.UUID, p fabrics.Provider, address string) (lane sourceLane, err error) {
		err = l.open(p, address, func() (err error) { lane, err = f(domainPath, flow, p, address); return err })
		return lane, err
	}
}

// open opens a lane, and once more when libfabric finds the address on another
// look. The error of an address that only a restart would find says so.
func (l *lateAddresses) open(p fabrics.Provider, address string, open func() error) error {
	err := open()
	if !errors.Is(err, fabrics.ErrNoInterface) {
		return err
	}
	link := l.link(address)
	if !link.Up || link.Interface == "" {
		return err // it is not there
	}
	key := lateAddress{Provider: p, Address: address, Interface: link.Interface}
	if !l.canRescan {
		return l.ask(key, err)
	}
	if !l.rescanDue() {
		return err
	}
	status := "found"
	again := l.rescan(p, address)
	if again != nil {
		status = again.Error()
	}
	l.mu.Lock()
	if l.said[key] != status {
		l.log.Info("fabric_interfaces_rescanned", "provider", p, "address", address, "interface", link.Interface, "status", status)
		l.said[key] = status
	}
	l.mu.Unlock()
	if again != nil {
		return err
	}
	return open()
}

// rescanDue says whether another look is due and counts as that look.
func (l *lateAddresses) rescanDue() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if !l.rescanned.IsZero() && now.Sub(l.rescanned) < rescanEvery {
		return false
	}
	l.rescanned = now
	return true
}

// ask notes that a set-up wants the address and completes its error.
func (l *lateAddresses) ask(key lateAddress, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.late[key]
	if s == nil {
		s = &lateState{}
		l.late[key] = s
	}
	s.askedAt = l.now()
	if !s.visible {
		return err
	}
	if l.tried[key.Address] {
		return fmt.Errorf("%w (libfabric %s knows the addresses of its first look only, and a restart did not help)", err, l.version)
	}
	return fmt.Errorf("%w (libfabric %s knows the addresses of its first look only; the agent restarts itself in place once no flow is running)", err, l.version)
}

// tend forgets what is no longer missing or wanted, has another process look for
// what is due, and lists what a restart would find. It blocks on nothing; found is
// called when a look has ended.
func (l *lateAddresses) tend(ctx context.Context, found func()) (visible []lateAddress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	for address := range l.tried {
		if !l.link(address).Up {
			delete(l.tried, address) // when it comes back it is another matter
		}
	}
	for key, s := range l.late {
		switch {
		case now.Sub(s.askedAt) > lateForgotten || l.link(key.Address) != (peers.Link{Up: true, Interface: key.Interface}):
			delete(l.late, key)
		case s.visible:
			if !l.tried[key.Address] {
				visible = append(visible, key)
			}
		case !l.looking && !now.Before(s.lookAt):
			l.looking = true
			s.wait = min(2*cmp.Or(s.wait, rescanEvery/2), lateLookMax)
			s.lookAt = now.Add(s.wait)
			l.spawn(func() {
				sees := l.look(ctx, key.Provider, key.Address)
				l.mu.Lock()
				l.looking = false
				s.visible = sees
				l.mu.Unlock()
				if sees {
					found()
				}
			})
		}
	}
	return visible
}

// restarted takes over for which addresses earlier processes have restarted.
func (l *lateAddresses) restarted(addresses []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, address := range addresses {
		l.tried[address] = true
	}
}

package mirror

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// Adopt finds this agent's mirrors of an earlier run, clears what a crash left
// half made, and opens every flow on its old files. The contract keeps mirrors
// over a restart, and garbage collection takes what no writer has locked (MXL
// format reference §11): so every flow is locked again at once, wanted or not,
// until the cleanup rules say otherwise. A flow that cannot be opened stays as
// it is; Survey shows its error. The list is that of Survey.
func (r *Room) Adopt() ([]DomainOnDisk, error) {
	all := r.clearAsides()
	domains, err := r.ownDomains()
	if err != nil {
		return nil, errors.Join(all, err)
	}
	for _, d := range domains {
		r.adoptDomain(d)
		d.close()
	}
	list, err := r.Survey()
	return list, errors.Join(all, err)
}

func (r *Room) adoptDomain(d *domainDirectory) {
	r.making.Lock()
	defer r.making.Unlock()
	if err := d.sweep(); err != nil {
		r.cfg.Log.Warn("mirror_sweep_failed", "domain_id", d.id, "path", d.path, "error", err.Error())
	}
	for _, id := range d.flows() {
		k := Key{d.id, id}
		if r.Held(k) != nil {
			continue
		}
		if err := r.adoptFlow(d, k); err != nil {
			r.mu.Lock()
			r.damaged[k] = err
			r.mu.Unlock()
			r.cfg.Log.Warn("mirror_writer_failed", "domain_id", d.id, "flow_id", id.String(), "error", err.Error())
		}
	}
}

// adoptFlow opens an existing flow by its own definition.
func (r *Room) adoptFlow(d *domainDirectory, k Key) error {
	text, def, err := d.readDef(k.FlowID)
	if err != nil {
		return err
	}
	if err := d.unmounted(k); err != nil {
		return err
	}
	domain, err := mxl.OpenDomainAt(d.dir, mxl.WithAccessWatch(r.watch))
	if err != nil {
		return err
	}
	f := &heldFlow{Flow: Flow{Key: k, SourceHost: d.marker.SourceHost}}
	if def.Format.Discrete() {
		f.Discrete, err = domain.OpenDiscreteWriter(k.FlowID)
	} else {
		f.Continuous, err = domain.OpenContinuousWriter(k.FlowID)
	}
	if err != nil {
		return err
	}
	f.Inode, f.Device = f.identity()
	if err := r.unchanged(d); err != nil {
		return errors.Join(err, f.close())
	}
	r.keep(f, Origin{Key: k, SourceHost: d.marker.SourceHost, FlowDef: text})
	return nil
}

// Sweep clears half-made flows out of this agent's mirror domains: what a crash
// left, or a removal that could not be finished. Adopt does it at the start.
func (r *Room) Sweep() error {
	domains, err := r.ownDomains()
	if err != nil {
		return err
	}
	r.making.Lock()
	defer r.making.Unlock()
	var all error
	for _, d := range domains {
		all = errors.Join(all, d.sweep())
		d.close()
	}
	return all
}

// leftIn notes that a removal left files of a flow that is gone.
func (r *Room) leftIn(domainID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left[domainID] = true
}

// SweepLeft clears what removals left, once it can go; in a domain that stays
// nothing else would before the next start. It costs nothing while there is
// nothing.
func (r *Room) SweepLeft() {
	r.mu.Lock()
	ids := slices.Collect(maps.Keys(r.left))
	r.mu.Unlock()
	for _, id := range ids {
		d, err := r.openDomain(id)
		if err == nil {
			r.making.Lock()
			err = d.sweep()
			r.making.Unlock()
			d.close()
		} else if gone(err) || errors.Is(err, ErrForeign) {
			err = nil // it went with its domain
		}
		if err == nil {
			r.mu.Lock()
			delete(r.left, id)
			r.mu.Unlock()
		}
	}
}

// sweep removes the half-made flows of one domain that nobody builds: those
// whose data file is not locked. The caller holds making, so it is none of our
// own.
func (d *domainDirectory) sweep() error {
	list, err := names(d.dir)
	if err != nil {
		return err
	}
	var all error
	for _, name := range list {
		if !strings.HasPrefix(name, halfMade) || d.locked(name) {
			continue
		}
		if err := removeEntry(d.dir, name, 1); err != nil {
			all = errors.Join(all, fmt.Errorf("sweep: %w", err))
		}
	}
	return all
}

// locked says whether a writer holds the data file of a flow directory.
func (d *domainDirectory) locked(name string) bool {
	dir, err := openBelow(d.dir, name)
	if err != nil {
		return false
	}
	defer dir.Close()
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := retry(func() (int, error) { return unix.Openat(int(dir.Fd()), "data", flags, 0) })
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return errors.Is(unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// forget drops what is remembered of a flow whose files are gone.
func (r *Room) forget(k Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.damaged, k)
	delete(r.kinds, k)
}

// take removes a held flow from the table without closing it; for the nil flow
// id, every one of the domain.
func (r *Room) take(k Key) []*heldFlow {
	r.mu.Lock()
	defer r.mu.Unlock()
	var taken []*heldFlow
	for other, f := range r.held {
		if other == k || (k.FlowID == uuid.Nil && other.DomainID == k.DomainID) {
			taken = append(taken, f)
			delete(r.held, other)
		}
	}
	return taken
}

package agent

import (
	"errors"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// mirrorLookEvery is how often a pull compares one file of its mirror with what is
// mapped of it while grains arrive: an adapter that writes into memory by itself does
// not notice that the file is gone.
const mirrorLookEvery = time.Second

// mirrorLook is how much of a mirror's files is looked at.
type mirrorLook int

const (
	lookAtNone mirrorLook = iota
	lookAtOne
	lookAtAll
)

// mirrorWatch is what a pull had seen of its target when it last looked at the files.
// It is a value: step gives the next one.
type mirrorWatch struct {
	errors    uint64
	connected bool
	grains    uint64
	next      time.Time
}

// step decides how much to look at now: everything when something failed or the
// connection ended, which the files may be the reason for.
func (w mirrorWatch) step(st fabrics.TargetStats, now time.Time) (mirrorWatch, mirrorLook) {
	look := lookAtNone
	switch {
	case st.Errors != w.errors, w.connected && !st.Connected:
		look = lookAtAll
	case st.Grains != w.grains && !now.Before(w.next):
		look = lookAtOne
	}
	w.errors, w.connected = st.Errors, st.Connected
	if look != lookAtNone {
		w.grains, w.next = st.Grains, now.Add(mirrorLookEvery)
	}
	return w, look
}

// watchMirror gives the mirror up when its files are not what the target writes to.
func (p *pull) watchMirror(st fabrics.TargetStats, now time.Time) {
	if p.view.MirrorLost && p.view.LostGeneration == p.view.SetUpGeneration {
		return
	}
	var look mirrorLook
	p.watched, look = p.watched.step(st, now)
	var err error
	switch {
	case st.MirrorLost:
		err = errors.New(st.LastError)
	case look == lookAtAll:
		err = p.unlessAway(p.lane.CheckMirror())
	case look == lookAtOne:
		err = p.unlessAway(p.lane.CheckMirrorFile())
	}
	if err != nil {
		p.loseMirror(p.view.SetUpGeneration, err)
	}
}

// unlessAway is the complaint about files that were looked for by their path, nil
// while the path of the MXL root leads elsewhere: the mirror is whole where it is,
// and its readers have it.
func (p *pull) unlessAway(err error) error {
	if err != nil && p.deps.away != nil && p.deps.away() {
		return nil
	}
	return err
}

// loseMirror tells the loop that the mirror of a generation has to be made anew. No
// target is set up before it is.
func (p *pull) loseMirror(generation uint64, err error) {
	p.view.MirrorLost, p.view.LostGeneration = true, generation
	p.errors++
	p.failed = true
	p.lastError = err.Error()
	p.deps.lost(p.key.mirror(), generation, err)
}

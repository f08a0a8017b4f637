package agent

import (
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// pullIndex is the set of pulls as others than the loop may look at it.
type pullIndex struct{ list atomic.Pointer[[]*pull] }

func (x *pullIndex) store(pulls map[pullKey]*pull) {
	list := make([]*pull, 0, len(pulls))
	for _, p := range pulls {
		list = append(list, p)
	}
	x.list.Store(&list)
}

func (x *pullIndex) all() []*pull {
	if p := x.list.Load(); p != nil {
		return *p
	}
	return nil
}

// of gives the pulls that write to a mirror flow, or to any flow of its domain
// when k names no flow.
func (x *pullIndex) of(k mirror.Key) []*pull {
	var found []*pull
	for _, p := range x.all() {
		if p.key.mirror() == k || (k.FlowID == uuid.Nil && p.key.Domain == k.DomainID) {
			found = append(found, p)
		}
	}
	return found
}

// isTmpfs says whether a path is on a tmpfs.
func isTmpfs(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.TMPFS_MAGIC
}

package mirror

import (
	"errors"

	"golang.org/x/sys/unix"
)

// watchedFlow is the files of a flow whose writer is held. They are made with the
// flow and stay those as long as its data file is the same one.
type watchedFlow struct {
	data  FileID
	files []FileID
}

// watchDomain adds the files of a domain, as domainDirectory.watch does, but looks into
// the flows that this process writes only once: a periodic check over hundreds of
// flows would otherwise stat thousands of files. The checks right before a removal
// look at the disk.
func (r *Room) watchDomain(d *domainDirectory, w *Watched) error {
	return d.watchWith(w, func(name string, k Key) error { return r.watchFlow(d, w, name, k) })
}

func (r *Room) watchFlow(d *domainDirectory, w *Watched, name string, k Key) error {
	r.mu.Lock()
	held, known := r.held[k], r.watched[k]
	r.mu.Unlock()
	var st unix.Stat_t
	if held == nil || unix.Fstatat(int(d.dir.Fd()), name+"/data", &st, unix.AT_SYMLINK_NOFOLLOW) != nil || st.Ino != held.Inode || st.Dev != held.Device {
		return d.watchFlow(w, name, k)
	}
	data := FileID{Dev: st.Dev, Ino: st.Ino}
	if known.data != data {
		seen := Watched{Files: map[FileID]Key{}}
		if err := d.watchFlow(&seen, name, k); err != nil {
			return errors.Join(err, d.watchFlow(w, name, k))
		}
		known = watchedFlow{data: data}
		for f := range seen.Files {
			known.files = append(known.files, f)
		}
		r.mu.Lock()
		if r.held[k] == held {
			r.watched[k] = known
		}
		r.mu.Unlock()
	}
	w.Flows = append(w.Flows, k)
	for _, f := range known.files {
		w.Files[f] = k
	}
	return nil
}

// forgetWatched drops what is known of flows whose writer is held no more.
func (r *Room) forgetWatched() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for k := range r.watched {
		if r.held[k] == nil {
			delete(r.watched, k)
		}
	}
}

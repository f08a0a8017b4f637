package mxl

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// scanWatch turns file system events of the root and its domains into names of subdirectories to look at. Flow
// directories are not watched: the readers' access times would be an event each.
type scanWatch struct {
	root    string
	watcher *fsnotify.Watcher // nil when there is no inotify instance to be had
	add     func(string) error
	rootID  scanFileID
	watched map[string]scanFileID
	err     error // why there is no watcher
}

func newScanWatch(root string, open func() (*fsnotify.Watcher, error), add func(*fsnotify.Watcher, string) error) *scanWatch {
	w := &scanWatch{root: filepath.Clean(root), watched: map[string]scanFileID{}}
	if w.watcher, w.err = open(); w.err != nil {
		w.watcher = nil
		return w
	}
	w.add = func(path string) error { return add(w.watcher, path) }
	return w
}

func (w *scanWatch) close() {
	if w.watcher != nil {
		w.watcher.Close()
	}
}

func (w *scanWatch) events() <-chan fsnotify.Event {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Events
}

func (w *scanWatch) errors() <-chan error {
	if w.watcher == nil {
		return nil
	}
	return w.watcher.Errors
}

// keep watches the root and exactly the given subdirectories, and says why it could not; fresh are the directories that
// were not watched before: what happened in them until now gave no event. root is the zero value while there is none.
func (w *scanWatch) keep(root scanFileID, dirs map[string]scanFileID) (notice string, fresh map[string]bool) {
	if w.watcher == nil {
		return "file system events are not available: " + watchText(w.err), nil
	}
	var (
		failed int
		first  error
		path   = func(name string) string { return filepath.Join(w.root, name) }
	)
	if w.rootID != root && w.rootID != (scanFileID{}) {
		_ = w.watcher.Remove(w.root) // gone already when the directory was deleted
		w.rootID = scanFileID{}
	}
	if w.rootID != root {
		if err := w.add(w.root); err == nil {
			w.rootID = root
		} else {
			failed, first = failed+1, err
		}
	}
	for name, id := range w.watched {
		if dirs[name] != id {
			_ = w.watcher.Remove(path(name))
			delete(w.watched, name)
		}
	}
	for name, id := range dirs {
		if _, ok := w.watched[name]; ok {
			continue
		}
		if err := w.add(path(name)); err != nil {
			if !errors.Is(err, unix.ENOENT) {
				failed++
				if first == nil {
					first = err
				}
			}
			continue
		}
		w.watched[name] = id
		if fresh == nil {
			fresh = map[string]bool{}
		}
		fresh[name] = true
	}
	if failed > 0 {
		return "directories without file system events: " + watchText(first), fresh
	}
	return "", fresh
}

// watchText adds the limit that is behind an inotify error.
func watchText(err error) string {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Sprintf("%v (fs.inotify.max_user_watches is reached)", err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Sprintf("%v (fs.inotify.max_user_instances or the open-file limit is reached)", err)
	}
	return err.Error()
}

// concerns returns the subdirectory of the root that an event is about, "" when it changes nothing for the scanner.
func (w *scanWatch) concerns(ev fsnotify.Event) string {
	rel, err := filepath.Rel(w.root, ev.Name)
	if err != nil || rel == "." || strings.HasPrefix(rel, "..") {
		return ""
	}
	dir, name, below := strings.Cut(rel, "/")
	switch {
	case strings.HasPrefix(dir, "."):
		return ""
	case !below, name == nameDomainDef, name == nameOptions:
		return dir
	case strings.HasSuffix(name, FlowSuffix) && !strings.HasPrefix(name, "."):
		return dir
	}
	return ""
}

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// save replaces the file at path in one step: whoever reads it, and whoever
// starts after a crash, finds either the old content or the new one.
func save(path string, content []byte) (err error) {
	// A link stays one: what it leads to is the file that is to last.
	if to, linkErr := filepath.EvalSymlinks(path); linkErr == nil {
		path = to
	}
	mode := fs.FileMode(0o644)
	if info, statErr := os.Stat(path); statErr == nil {
		mode = info.Mode().Perm()
	}
	temporary := path + ".tmp"
	defer func() {
		if err != nil {
			if rmErr := os.Remove(temporary); rmErr != nil && !errors.Is(rmErr, fs.ErrNotExist) {
				err = errors.Join(err, rmErr)
			}
		}
	}()
	if err := writeSynced(temporary, content, mode); err != nil {
		return err
	}
	if err := os.Rename(temporary, path); err != nil {
		if errors.Is(err, unix.EBUSY) {
			err = fmt.Errorf("%w: the file is a mount of its own, which nobody can replace; mount its directory instead", err)
		}
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, content []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	if err := f.Sync(); err != nil {
		return errors.Join(err, f.Close())
	}
	return f.Close()
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the directory: %w", err)
	}
	return errors.Join(d.Sync(), d.Close())
}

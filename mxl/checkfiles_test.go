package mxl

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCheckFiles(t *testing.T) {
	type checked interface {
		CheckFile(int) error
		CheckFiles() error
		Dir() string
		Close() error
	}
	for name, c := range map[string]struct {
		continuous bool
		file       string
		number     int // of the file in the ring
		harm       func(path string) error
		says       string
	}{
		"grain cut to nothing":  {file: "grains/data.2", number: 2, harm: func(p string) error { return os.Truncate(p, 0) }, says: "has 0 bytes"},
		"grain without payload": {file: "grains/data.0", number: 0, harm: func(p string) error { return os.Truncate(p, PayloadOffset) }, says: "has 8192 bytes"},
		"grain gone":            {file: "grains/data.1", number: 1, harm: os.Remove, says: "is gone"},
		"ring cut":              {continuous: true, file: "channels", harm: func(p string) error { return os.Truncate(p, 4096) }, says: "has 4096 bytes"},
		"ring gone":             {continuous: true, file: "channels", harm: os.Remove, says: "is gone"},
	} {
		t.Run(name, func(t *testing.T) {
			w := checkedWriter(t, c.continuous).(checked)
			depth := 1
			if d, ok := w.(*DiscreteWriter); ok {
				depth = int(d.Depth())
			}
			if err := w.CheckFiles(); err != nil {
				t.Fatalf("whole: %v", err)
			}
			if err := c.harm(filepath.Join(w.Dir(), c.file)); err != nil {
				t.Fatal(err)
			}
			for i := range depth {
				if err := w.CheckFile(i + depth); errors.Is(err, ErrFlowInvalid) != (i == c.number) {
					t.Errorf("file %d: %v", i, err)
				}
			}
			if err := w.CheckFiles(); !errors.Is(err, ErrFlowInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want one that says %q", err, c.says)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if err := w.CheckFiles(); !errors.Is(err, ErrInvalidState) {
				t.Errorf("closed: %v", err)
			}
			if err := w.CheckFile(0); !errors.Is(err, ErrInvalidState) {
				t.Errorf("closed: %v", err)
			}
		})
	}
}

func checkedWriter(t *testing.T, continuous bool) any {
	if continuous {
		return newSampleWriter(t, newDomain(t, 0), audioDef(2, 48000), FlowOptions{})
	}
	return newGrainWriter(t, newDomain(t, 0), videoDef(192, 108, 50, 1))
}

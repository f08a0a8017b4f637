package mxl

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// openTries bounds the races with others that create, replace or collect the flow at the same moment.
const openTries = 5

// OpenDiscreteWriter opens an existing flow of grains for writing. Errors: ErrFlowNotFound, ErrPermissionDenied,
// *MalformedError, ErrInvalidFlowWriter when the flow is continuous.
func (d *Domain) OpenDiscreteWriter(id uuid.UUID) (*DiscreteWriter, error) {
	files, err := d.openForWriting(id, true)
	if err != nil {
		return nil, err
	}
	return d.newDiscreteWriter(files)
}

// OpenContinuousWriter opens an existing flow of samples for writing. Errors as OpenDiscreteWriter.
func (d *Domain) OpenContinuousWriter(id uuid.UUID) (*ContinuousWriter, error) {
	files, err := d.openForWriting(id, false)
	if err != nil {
		return nil, err
	}
	return newContinuousWriter(files)
}

// CreateDiscreteWriter opens the flow of a definition for writing, and creates it when it does not exist; created says
// which. The definition is stored verbatim. An existing flow must have the same definition (see SameDefinition) and
// geometry, else the error is a *DifferenceError and the files stay as they are; its options and, unless WithExactDepth is
// given, its ring depth win. A failed creation leaves nothing behind.
func (d *Domain) CreateDiscreteWriter(def []byte, opt FlowOptions, with ...CreateOption) (w *DiscreteWriter, created bool, err error) {
	files, created, err := d.openOrCreate(def, opt, with, true)
	if err != nil {
		return nil, false, err
	}
	w, err = d.newDiscreteWriter(files)
	return w, created && err == nil, err
}

// CreateContinuousWriter is CreateDiscreteWriter for audio.
func (d *Domain) CreateContinuousWriter(def []byte, opt FlowOptions, with ...CreateOption) (w *ContinuousWriter, created bool, err error) {
	files, created, err := d.openOrCreate(def, opt, with, false)
	if err != nil {
		return nil, false, err
	}
	w, err = newContinuousWriter(files)
	return w, created && err == nil, err
}

func (d *Domain) newDiscreteWriter(files flowFiles) (*DiscreteWriter, error) {
	w := &DiscreteWriter{files: files}
	if err := w.mapRing(&files); err != nil {
		files.close()
		return nil, err
	}
	d.ensureAccess(&w.files)
	w.watch = d.watch.add(d.accessPath(&files), w.lastR)
	return w, nil
}

// accessPath names the access file for inotify, which takes no descriptor of a directory.
func (d *Domain) accessPath(files *flowFiles) string {
	if d.dir == nil {
		return filepath.Join(files.dir, nameAccess)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", files.dirFD, nameAccess)
}

// ensureAccess restores a missing access file: without it no SDK writer can open the flow (MXL format reference §6).
func (d *Domain) ensureAccess(files *flowFiles) {
	if fd, err := openAt(files.dirFD, nameAccess, unix.O_CREAT|unix.O_RDONLY|unix.O_NOFOLLOW, 0o666); err == nil {
		unix.Close(fd)
	}
}

func newContinuousWriter(files flowFiles) (*ContinuousWriter, error) {
	w := &ContinuousWriter{files: files}
	w.rule = newWakeRule(files.info.MaxSyncBatchSizeHint, files.info.MaxCommitBatchSizeHint)
	if err := w.mapRing(&files); err != nil {
		files.close()
		return nil, err
	}
	return w, nil
}

// openForWriting opens and locks every file of an existing flow.
func (d *Domain) openForWriting(id uuid.UUID, discrete bool) (files flowFiles, err error) {
	for range openTries {
		files, err = d.openFiles(id, true)
		if err == nil {
			err = files.openRing(discrete)
		}
		if err == nil && !d.published(id, &files) {
			// A collector renamed it away while we opened it.
			err = notFound(files.dir)
			files.close()
			continue
		}
		break
	}
	if err != nil {
		files.close()
	}
	return files, err
}

// openRing opens the ring of a flow of the class that is wanted.
func (f *flowFiles) openRing(discrete bool) error {
	if f.info.Format.Discrete() != discrete {
		return fmt.Errorf("%w: %s is %v", ErrInvalidFlowWriter, f.dir, f.info.Format)
	}
	var err error
	if discrete {
		_, err = f.openGrains()
	} else {
		_, err = f.openChannels()
	}
	return err
}

// published reports whether the open data file is the one under the flow's name.
func (d *Domain) published(id uuid.UUID, f *flowFiles) bool {
	parentFD, name, _ := d.at(FlowDirName(id))
	var st unix.Stat_t
	err := unix.Fstatat(parentFD, filepath.Join(name, nameData), &st, unix.AT_SYMLINK_NOFOLLOW)
	runtime.KeepAlive(d)
	return err == nil && st.Ino == f.info.Inode && st.Dev == f.info.Device
}

// openOrCreate tries to open first: creating allocates the whole flow before it finds out that there is one
// (MXL format reference §15).
func (d *Domain) openOrCreate(text []byte, opt FlowOptions, with []CreateOption, discrete bool) (flowFiles, bool, error) {
	c, err := d.plan(text, opt, with)
	if err != nil {
		return flowFiles{}, false, err
	}
	if c.def.Format.Discrete() != discrete {
		return flowFiles{}, false, fmt.Errorf("%w: flow %v is %v", ErrInvalidArgument, c.def.ID, c.def.Format)
	}
	for range openTries {
		files, err := d.openForWriting(c.def.ID, discrete)
		if err == nil {
			err = c.compare(&files)
		}
		if err == nil {
			return files, false, nil
		}
		files.close()
		switch {
		case errors.Is(err, ErrInvalidFlowWriter):
			return files, false, &DifferenceError{c.def.ID, []string{"format"}}
		case !errors.Is(err, ErrFlowNotFound):
			return files, false, err
		}
		if err := c.build(); !errors.Is(err, errFlowExists) {
			return c.files, err == nil, err
		}
	}
	return flowFiles{}, false, malformed(filepath.Join(d.path, FlowDirName(c.def.ID)),
		"exists, cannot be opened as a flow and cannot be created")
}

// compare says what an existing flow differs in from what would have been created.
func (c *creation) compare(files *flowFiles) error {
	differing := geometryDifference(files.info, c.info)
	if c.def.Format.Discrete() && int(files.grain.GrainSize) != c.def.PayloadSize() {
		differing = append(differing, "grainSize")
	}
	if c.def.Format.Continuous() && files.word != c.def.WordSize() {
		differing = append(differing, "bit_depth")
	}
	if c.exactDepth && (files.info.GrainCount != c.info.GrainCount || files.info.BufferLength != c.info.BufferLength) {
		differing = append(differing, "history_duration")
	}
	text, err := readText(files.dirFD, files.dir, nameFlowDef)
	if err != nil {
		differing = append(differing, nameFlowDef)
	} else if same, names := SameDefinition(text, c.def.Raw); !same {
		differing = append(differing, names...)
	}
	if differing = unique(differing); len(differing) > 0 {
		return &DifferenceError{c.def.ID, differing}
	}
	return nil
}

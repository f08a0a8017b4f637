package mxl

import (
	"errors"
	"path/filepath"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// FlowInfo is the decoded header of a flow's data file (MXL format reference §4.1) and the identity of the file.
type FlowInfo struct {
	Version, Size          uint32
	ID                     uuid.UUID
	Format                 Format
	Flags                  uint32
	Rate                   Rational // grains (fields when interlaced) or samples per second
	MaxCommitBatchSizeHint uint32   // slices, or samples per channel
	MaxSyncBatchSizeHint   uint32
	PayloadLocation        PayloadLocation
	DeviceIndex            int32

	SliceSizes [4]uint32 // discrete: bytes of a slice in each plane
	GrainCount uint32    // discrete: slots of the ring

	ChannelCount uint32 // continuous
	BufferLength uint32 // continuous: samples per channel in the ring

	HeadIndex     uint64
	LastWriteTime uint64 // TAI ns; of a continuous flow the time of creation for ever
	LastReadTime  uint64 // TAI ns

	StoredInode uint64 // inode the writer noted in the file; differs from Inode in a copied directory
	SyncCounter uint32

	Device, Inode uint64 // of the data file that was read
}

// ReadFlowInfo reads the header of the flow in a flow directory (…/<uuid>.mxl-flow) without mapping anything.
// Symbolic links are refused. When the header is malformed the error (*MalformedError) says how and the info holds what
// could be decoded. ErrFlowNotFound when there is no directory or no data file.
func ReadFlowInfo(flowDir string) (FlowInfo, error) {
	f, err := openFlowFiles(unix.AT_FDCWD, flowDir, flowDir)
	defer f.close()
	return f.info, err
}

// ReadFlowInfoAt is ReadFlowInfo for the flow of an id in the domain directory open as domainFD.
func ReadFlowInfoAt(domainFD int, id uuid.UUID) (FlowInfo, error) {
	name := FlowDirName(id)
	f, err := openFlowFiles(domainFD, name, name)
	defer f.close()
	return f.info, err
}

// InspectFlow makes all the checks that opening a reader makes, on the header and on the size and version of every file,
// without mapping. On an error the info holds what could be decoded.
func InspectFlow(flowDir string) (FlowInfo, error) {
	return inspectFlow(unix.AT_FDCWD, flowDir, flowDir)
}

// InspectFlowAt is InspectFlow for the flow of an id in the domain directory open as domainFD.
func InspectFlowAt(domainFD int, id uuid.UUID) (FlowInfo, error) {
	name := FlowDirName(id)
	return inspectFlow(domainFD, name, name)
}

func inspectFlow(parentFD int, name, dir string) (FlowInfo, error) {
	f, err := openFlowFiles(parentFD, name, dir)
	defer f.close()
	if err != nil {
		return f.info, err
	}
	if f.info.Format.Discrete() {
		_, err = f.openGrains()
	} else {
		_, err = f.openChannels()
	}
	return f.info, err
}

// flowFiles are the open descriptors of an existing flow.
type flowFiles struct {
	dir    string // path for messages and for Check
	write  bool
	dirFD  int
	dataFD int
	info   FlowInfo
	ring   []ringFile
	word   int // continuous: bytes of a sample
	grain  GrainHeader
}

// ringFile is a grain file or the sample ring.
type ringFile struct {
	fd   int
	size int // bytes to map
}

// openFlowFiles opens the directory name below parentFD and its data file for reading.
// The result must be closed even when there is an error.
func openFlowFiles(parentFD int, name, dir string) (flowFiles, error) {
	return openFlowFilesFor(parentFD, name, dir, false)
}

// openFlowFilesFor is openFlowFiles; for a writer the files are locked shared.
func openFlowFilesFor(parentFD int, name, dir string, write bool) (f flowFiles, err error) {
	f = flowFiles{dir: dir, write: write, dirFD: -1, dataFD: -1}
	if f.dirFD, err = openDir(parentFD, name); err != nil {
		f.dirFD = -1
		if errors.Is(err, unix.ENOENT) {
			return f, notFound(dir)
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return f, malformed(dir, "is a symbolic link or not a directory")
		}
		return f, fileError("open", dir, err)
	}
	return f, f.openData()
}

func notFound(path string) error { return &notFoundError{path} }

// notFoundError is a flow without directory or data file.
type notFoundError struct{ path string }

func (e *notFoundError) Error() string { return "mxl: flow not found: no " + e.path }
func (e *notFoundError) Unwrap() error { return ErrFlowNotFound }

func (f *flowFiles) flags() int {
	if f.write {
		return unix.O_RDWR
	}
	return unix.O_RDONLY
}

// open opens and locks one file of the flow. Missing files are named as such.
func (f *flowFiles) open(dirFD int, name, path string) (int, unix.Stat_t, error) {
	fd, st, err := openRegular(dirFD, name, f.flags())
	if err != nil {
		var errno unix.Errno
		if !errors.As(err, &errno) {
			return -1, st, malformed(path, "%v", err)
		}
		return -1, st, fileError("open", path, err)
	}
	if f.write {
		if err := lockShared(fd); err != nil {
			unix.Close(fd)
			return -1, st, fileError("lock", path, err)
		}
	}
	return fd, st, nil
}

func (f *flowFiles) openData() error {
	path := filepath.Join(f.dir, nameData)
	fd, st, err := f.open(f.dirFD, nameData, path)
	if err != nil {
		if isMissing(err) {
			return notFound(path)
		}
		return err
	}
	f.dataFD = fd
	if st.Size < dataFileSize {
		return malformed(path, "data has %d bytes, want at least %d", st.Size, dataFileSize)
	}
	var b [dataFileSize]byte
	if _, err := preader(fd).ReadAt(b[:], 0); err != nil {
		return fileError("read", path, err)
	}
	f.info, err = decodeFlowInfo(b[:])
	f.info.Device, f.info.Inode = st.Dev, st.Ino
	if err != nil {
		return malformed(path, "%v", err)
	}
	return nil
}

// openGrains opens every grain file and checks it against the header of the flow and against the first grain.
func (f *flowFiles) openGrains() (GrainHeader, error) {
	dir := filepath.Join(f.dir, nameGrains)
	dirFD, err := openDir(f.dirFD, nameGrains)
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return GrainHeader{}, notFound(dir)
		}
		return GrainHeader{}, fileError("open", dir, err)
	}
	defer unix.Close(dirFD)
	var first GrainHeader
	for i := range int(f.info.GrainCount) {
		name := grainName(i)
		path := filepath.Join(dir, name)
		fd, st, err := f.open(dirFD, name, path)
		if err != nil {
			return first, err
		}
		f.ring = append(f.ring, ringFile{fd: fd})
		if st.Size < PayloadOffset {
			return first, malformed(path, "grain file has %d bytes, want at least %d", st.Size, PayloadOffset)
		}
		var b [grainFieldsEnd]byte
		if _, err := preader(fd).ReadAt(b[:], 0); err != nil {
			return first, fileError("read", path, err)
		}
		h := decodeGrainHeader(b[:])
		if i == 0 {
			first = h
		}
		if err := checkGrainHeader(h, f.info.SliceSizes, first.GrainSize, first.TotalSlices); err != nil {
			return first, malformed(path, "%v", err)
		}
		size := PayloadOffset + int64(h.GrainSize)
		if st.Size < size {
			return first, malformed(path, "grain file has %d bytes, want %d", st.Size, size)
		}
		f.ring[i].size = int(size)
	}
	f.grain = first
	return first, nil
}

// openChannels opens the sample ring; its size gives the size of a sample, which is stored nowhere.
func (f *flowFiles) openChannels() (word int, err error) {
	path := filepath.Join(f.dir, nameChannels)
	fd, st, err := f.open(f.dirFD, nameChannels, path)
	if err != nil {
		return 0, err
	}
	samples := int64(f.info.ChannelCount) * int64(f.info.BufferLength)
	f.ring = append(f.ring, ringFile{fd: fd, size: int(st.Size)})
	switch st.Size {
	case 4 * samples:
		f.word = 4
	case 8 * samples:
		f.word = 8
	default:
		return 0, malformed(path, "has %d bytes, want 4 or 8 for each of %d channels of %d samples",
			st.Size, f.info.ChannelCount, f.info.BufferLength)
	}
	return f.word, nil
}

// close closes whatever is open, and with it gives up the locks.
func (f *flowFiles) close() {
	for i := range f.ring {
		closeFD(&f.ring[i].fd)
	}
	closeFD(&f.dataFD)
	closeFD(&f.dirFD)
}

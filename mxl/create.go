package mxl

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// CreateOption configures the creation of a flow.
type CreateOption func(*creation)

// WithFileMode sets the permission bits of the files of a new flow instead of leaving them to the umask; its directories
// get the execute bit wherever the mode has the read bit.
func WithFileMode(mode os.FileMode) CreateOption {
	return func(c *creation) { c.mode, c.hasMode = uint32(mode.Perm()), true }
}

// WithOwner sets the owner of the files and directories of a new flow; -1 keeps an id.
func WithOwner(uid, gid int) CreateOption { return func(c *creation) { c.uid, c.gid = uid, gid } }

// WithExactDepth makes an existing flow of another ring depth than the domain's history gives a difference.
func WithExactDepth() CreateOption { return func(c *creation) { c.exactDepth = true } }

// creation builds a new flow in a temporary directory (MXL format reference §6).
type creation struct {
	domain     *Domain
	def        *FlowDef
	info       FlowInfo
	mode       uint32
	hasMode    bool
	uid, gid   int
	exactDepth bool

	domainFD int
	temp     string // name of the temporary directory
	files    flowFiles
}

// plan validates a definition and derives the header of a new flow.
func (d *Domain) plan(text []byte, opt FlowOptions, with []CreateOption) (*creation, error) {
	def, err := ParseFlowDef(text)
	if err != nil {
		return nil, err
	}
	if err := opt.Validate(); err != nil {
		return nil, err
	}
	c := &creation{domain: d, def: def, uid: -1, gid: -1, domainFD: -1}
	for _, o := range with {
		o(c)
	}
	if c.info, err = newFlowInfo(def, opt, d.HistoryNS()); err != nil {
		return nil, err
	}
	return c, nil
}

// newFlowInfo derives the header of a new flow and refuses what the SDK would let through (MXL format reference §15).
func newFlowInfo(def *FlowDef, opt FlowOptions, historyNS uint64) (FlowInfo, error) {
	info := FlowInfo{
		Version: dataVersion, Size: flowInfoSize, ID: def.ID, Format: def.Format, Rate: def.Rate, DeviceIndex: -1,
		SliceSizes: def.SliceSizes(),
	}
	info.MaxCommitBatchSizeHint, info.MaxSyncBatchSizeHint = opt.hints(def)
	depth := def.RingDepth(historyNS)
	if def.Format.Discrete() {
		if depth == 0 || depth > MaxGrainCount {
			return info, fmt.Errorf("%w: flow %v: a history of %d ns at %v is a ring of %d grains, want 1 to %d",
				ErrInvalidArgument, def.ID, historyNS, def.Rate, depth, MaxGrainCount)
		}
		info.GrainCount = uint32(depth)
		return info, nil
	}
	if depth < 2 || depth >= 1<<32 || depth*uint64(def.ChannelCount) >= 1<<32 {
		return info, fmt.Errorf("%w: flow %v: a history of %d ns at %v is a ring of %d channels of %d samples",
			ErrInvalidArgument, def.ID, historyNS, def.Rate, def.ChannelCount, depth)
	}
	info.ChannelCount, info.BufferLength = uint32(def.ChannelCount), uint32(depth)
	return info, nil
}

// errFlowExists says that somebody else has published the flow first.
var errFlowExists = errors.New("mxl: flow exists")

// build makes the flow and publishes it. On an error nothing is left behind. On success c.files holds open, locked
// descriptors of every file.
func (c *creation) build() (err error) {
	name := FlowDirName(c.def.ID)
	c.files = flowFiles{dir: filepath.Join(c.domain.path, name), write: true, dirFD: -1, dataFD: -1}
	defer func() {
		defer closeFD(&c.domainFD)
		if err == nil {
			return
		}
		c.files.close()
		if c.temp != "" {
			err = errors.Join(err, removeTreeAt(c.domainFD, c.temp, filepath.Join(c.domain.path, c.temp)))
			c.temp = ""
		}
	}()
	parentFD, place := c.domain.place()
	if c.domainFD, err = openAt(parentFD, place, unix.O_RDONLY|unix.O_DIRECTORY, 0); err != nil {
		c.domainFD = -1
		return fileError("open", c.domain.path, err)
	}
	if err := c.makeTemp(); err != nil {
		return err
	}
	if err := c.fill(); err != nil {
		return fmt.Errorf("mxl: create flow %v: %w", c.def.ID, err)
	}
	switch err := renameNoReplace(c.domainFD, c.temp, name); {
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY):
		return errFlowExists
	case err != nil:
		return fileError("publish", c.files.dir, err)
	}
	c.temp = ""
	return nil
}

// makeTemp makes the temporary directory, named as mkdtemp does with the SDK's template: ten X stay.
func (c *creation) makeTemp() error {
	for range 100 {
		name, err := tempName()
		if err != nil {
			return err
		}
		switch err := unix.Mkdirat(c.domainFD, name, 0o700); err {
		case nil:
			c.temp = name
		case unix.EEXIST:
			continue
		default:
			return fileError("create flow in", c.domain.path, err)
		}
		fd, err := openDir(c.domainFD, name)
		if err != nil {
			return fileError("open", filepath.Join(c.domain.path, name), err)
		}
		c.files.dirFD = fd
		return nil
	}
	return fmt.Errorf("mxl: create flow in %s: no free temporary name", c.domain.path)
}

func tempName() (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", fmt.Errorf("mxl: temporary name: %w", err)
	}
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return tempPrefix + "XXXXXXXXXX" + string(b[:]), nil
}

// fill writes every file of the flow.
func (c *creation) fill() error {
	dirFD := c.files.dirFD
	if err := c.writeText(nameFlowDef, c.def.Raw); err != nil {
		return err
	}
	if c.info.Format.Discrete() {
		if err := c.writeText(nameAccess, nil); err != nil {
			return err
		}
	}
	if err := c.makeData(); err != nil {
		return err
	}
	if c.info.Format.Discrete() {
		if err := c.makeGrains(); err != nil {
			return err
		}
	} else if err := c.makeChannels(); err != nil {
		return err
	}
	return c.settle(dirFD, "the flow directory", c.dirMode(0o755))
}

// settle gives a file or directory its final mode and owner. A mode of 0 keeps what the umask left.
func (c *creation) settle(fd int, name string, mode uint32) error {
	if c.uid >= 0 || c.gid >= 0 {
		if err := unix.Fchown(fd, c.uid, c.gid); err != nil {
			return fmt.Errorf("set owner %d:%d of %s: %w", c.uid, c.gid, name, err)
		}
	}
	if mode != 0 {
		if err := unix.Fchmod(fd, mode); err != nil {
			return fmt.Errorf("set mode %#o of %s: %w", mode, name, err)
		}
	}
	return nil
}

func (c *creation) fileMode() uint32 {
	if c.hasMode {
		return c.mode
	}
	return 0
}

func (c *creation) dirMode(without uint32) uint32 {
	if !c.hasMode {
		return without
	}
	return c.mode | (c.mode&0o444)>>2 | 0o700
}

func (c *creation) writeText(name string, text []byte) error {
	fd, err := openAt(c.files.dirFD, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o666)
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	defer unix.Close(fd)
	for len(text) > 0 {
		n, err := unix.Write(fd, text)
		if err != nil && err != unix.EINTR {
			return fmt.Errorf("write %s: %w", name, err)
		}
		text = text[max(n, 0):]
	}
	return c.settle(fd, name, c.fileMode())
}

// makeFile makes an allocated, locked file of zeros.
func (c *creation) makeFile(dirFD int, name string, size int64) (int, error) {
	fd, err := openAt(dirFD, name, unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o664)
	if err != nil {
		return -1, fmt.Errorf("create %s: %w", name, err)
	}
	err = allocate(fd, size)
	if err != nil {
		err = fmt.Errorf("allocate %d bytes for %s: %w", size, name, err)
	} else if err = flock(fd, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		err = fmt.Errorf("lock %s: %w", name, err)
	} else {
		err = c.settle(fd, name, c.fileMode())
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func (c *creation) makeData() error {
	fd, err := c.makeFile(c.files.dirFD, nameData, dataFileSize)
	if err != nil {
		return err
	}
	c.files.dataFD = fd
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("stat %s: %w", nameData, err)
	}
	c.info.Inode, c.info.Device, c.info.StoredInode = st.Ino, st.Dev, st.Ino
	c.info.LastWriteTime = Now()
	c.info.LastReadTime = c.info.LastWriteTime
	c.files.info = c.info
	var b [dataFileSize]byte
	encodeFlowInfo(b[:], c.info)
	if _, err := unix.Pwrite(fd, b[:], 0); err != nil {
		return fmt.Errorf("write %s: %w", nameData, err)
	}
	return nil
}

func (c *creation) makeGrains() error {
	if err := unix.Mkdirat(c.files.dirFD, nameGrains, 0o777); err != nil {
		return fmt.Errorf("create %s: %w", nameGrains, err)
	}
	dirFD, err := openDir(c.files.dirFD, nameGrains)
	if err != nil {
		return fmt.Errorf("open %s: %w", nameGrains, err)
	}
	defer unix.Close(dirFD)
	if err := c.settle(dirFD, nameGrains, c.dirMode(0)); err != nil {
		return err
	}
	c.files.grain = GrainHeader{GrainSize: uint32(c.def.PayloadSize()), TotalSlices: uint16(c.def.TotalSlices())}
	size := PayloadOffset + c.def.PayloadSize()
	var b [grainFieldsEnd]byte
	encodeGrainHeader(b[:], c.files.grain)
	for i := range int(c.info.GrainCount) {
		fd, err := c.makeFile(dirFD, grainName(i), int64(size))
		if err != nil {
			return err
		}
		c.files.ring = append(c.files.ring, ringFile{fd, size})
		if _, err := unix.Pwrite(fd, b[:], 0); err != nil {
			return fmt.Errorf("write %s: %w", grainName(i), err)
		}
	}
	return nil
}

func (c *creation) makeChannels() error {
	c.files.word = c.def.WordSize()
	size := int(c.info.ChannelCount) * int(c.info.BufferLength) * c.files.word
	fd, err := c.makeFile(c.files.dirFD, nameChannels, int64(size))
	if err != nil {
		return err
	}
	c.files.ring = append(c.files.ring, ringFile{fd, size})
	return nil
}

// renameNoReplace renames within a directory and fails when the new name exists. File systems without the flag refuse at
// least to replace a directory that is not empty.
func renameNoReplace(dirFD int, from, to string) error {
	err := unix.Renameat2(dirFD, from, dirFD, to, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL || err == unix.ENOSYS {
		err = unix.Renameat(dirFD, from, dirFD, to)
	}
	return err
}

// removeTreeAt removes what a name below an open directory is, with all that is in it. It follows no symbolic link, and it
// is no error when nothing is there.
func removeTreeAt(parentFD int, name, path string) error {
	err := unix.Unlinkat(parentFD, name, 0)
	if err == unix.EISDIR || err == unix.EPERM { // EPERM is what POSIX has for a directory
		// An empty one goes without a descriptor, which there may be none of.
		if err = unix.Unlinkat(parentFD, name, unix.AT_REMOVEDIR); err == unix.ENOTEMPTY || err == unix.EEXIST {
			if err = emptyAt(parentFD, name, path); err == nil {
				err = unix.Unlinkat(parentFD, name, unix.AT_REMOVEDIR)
			}
		}
	}
	if err == nil || err == unix.ENOENT {
		return nil
	}
	return fileError("remove", path, err)
}

func emptyAt(parentFD int, name, path string) error {
	fd, err := openDir(parentFD, name)
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeTreeAt(fd, name, filepath.Join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

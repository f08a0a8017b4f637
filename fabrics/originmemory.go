package fabrics

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// originMemory is the registered memory of an origin.
type originMemory struct {
	regions registrations // grain files in slot order
	again   [][]byte      // files mapped once more, see add
}

// add registers mem, a read-only mapping of the file at path. Kernels before 6.2 pin
// memory for RDMA as if it were written to, and refuse a shared mapping that is not
// writable with EFAULT (drivers/infiniband/core/umem.c); there the file is mapped a
// second time, writable, and never written: the region gives the device no right to
// do so. That needs the permission to write the origin's files.
func (m *originMemory) add(f *ofi.Fabric, i *ofi.Info, mem []byte, path string) error {
	err := m.regions.add(f, i, mem, ofi.AccessSource)
	if err == nil || !errors.Is(err, unix.EFAULT) || !i.ReceivePerImmediate() {
		return err
	}
	writable, openErr := mapWritable(path, len(mem))
	if openErr != nil {
		return fmt.Errorf("%w: this kernel, older than 6.2, registers writable mappings only, and %w", err, openErr)
	}
	m.again = append(m.again, writable)
	return m.regions.add(f, i, writable, ofi.AccessSource)
}

func mapWritable(path string, size int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s for writing: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat %s: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size < int64(size) {
		return nil, fmt.Errorf("%s is no file of %d bytes any more", path, size)
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s writable: %w", path, err)
	}
	return mem, nil
}

// close deregisters everything; nothing may be in flight.
func (m *originMemory) close() error {
	err := m.regions.close()
	for i := range m.again {
		unmap(&m.again[i])
	}
	m.again = nil
	return err
}

// registerOrigin registers the grains of r; samples are sent from memory of our own. A
// flow that was re-created meanwhile is an error: its files are no longer those that r
// has mapped.
func (l *sourceLane) registerOrigin(r originReader) (m originMemory, err error) {
	if r.grains == nil {
		return m, nil
	}
	for slot := 0; err == nil && slot < int(r.grains.Depth()); slot++ {
		err = m.add(l.fabric, l.info, r.grains.Slot(slot), filepath.Join(r.dir(), "grains", "data."+strconv.Itoa(slot)))
	}
	if err == nil && m.again != nil {
		err = r.check()
	}
	if err != nil {
		return originMemory{}, errors.Join(fmt.Errorf("register origin: %w", err), m.close())
	}
	return m, nil
}

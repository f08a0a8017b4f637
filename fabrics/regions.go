package fabrics

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// registrations are a lane's memory regions, closed together.
type registrations []*ofi.Memory

// add registers mem. The error names the usual reason of a refusal.
func (r *registrations) add(f *ofi.Fabric, i *ofi.Info, mem []byte, access ofi.Access) error {
	m, err := f.Register(i, mem, access, randomUint64())
	if err != nil {
		if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EPERM) {
			var limit unix.Rlimit
			if unix.Getrlimit(unix.RLIMIT_MEMLOCK, &limit) == nil {
				return fmt.Errorf("%w: pinning needs CAP_IPC_LOCK or a higher RLIMIT_MEMLOCK (now %d bytes)", err, limit.Cur)
			}
		}
		return err
	}
	*r = append(*r, m)
	return nil
}

// close deregisters everything and returns the first error.
func (r *registrations) close() error {
	var first error
	for _, m := range *r {
		if err := m.Close(); err != nil && first == nil {
			first = err
		}
	}
	*r = nil
	return first
}

// anonymous is memory outside the Go heap, for what a provider writes or reads.
func anonymous(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, fmt.Errorf("map %d bytes: %w", size, err)
	}
	return b, nil
}

func randomUint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint64(b[:])
}

func unmap(b *[]byte) {
	if *b != nil {
		_ = unix.Munmap(*b)
		*b = nil
	}
}

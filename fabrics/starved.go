package fabrics

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/ofi"
)

// starvedEvery is how often a lane notes how long its thread has waited for a
// processor: what comes up in a long pass is that of the pass, and of at most this
// long before it.
const starvedEvery = int64(100 * time.Millisecond)

// starvation is how long a lane's thread was ready to run and did not (proc(5),
// schedstat). A thread that sleeps until something comes cannot tell that from the
// wait itself: on a busy host it would look as if the network took so long.
type starvation struct {
	total func() int64 // nanoseconds since the thread began; nil where the kernel does not say
	noted int64
	at    int64 // lane time of noted
	fd    int
	buf   [96]byte
}

// open is called on the thread that is measured.
func (s *starvation) open() {
	fd, err := unix.Open("/proc/thread-self/schedstat", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return // a kernel without it
	}
	s.fd, s.total = fd, s.read
}

func (s *starvation) close() {
	if s.total != nil {
		unix.Close(s.fd)
		s.total = nil
	}
}

// read returns the second of the file's three numbers, or what it was before.
func (s *starvation) read() int64 {
	n, err := unix.Pread(s.fd, s.buf[:], 0)
	if err != nil {
		return s.noted
	}
	return secondNumber(s.buf[:n])
}

func secondNumber(b []byte) (v int64) {
	field := 0
	for _, c := range b {
		switch {
		case c == ' ':
			field++
		case field == 1 && c >= '0' && c <= '9':
			v = v*10 + int64(c-'0')
		}
	}
	return v
}

// note begins a pass.
func (s *starvation) note(now int64) {
	if s.total != nil && now-s.at >= starvedEvery {
		s.noted, s.at = s.total(), now
	}
}

// lend has a run outside Go note it as passes do, and take has what that has noted.
func (s *starvation) lend(r ofi.SampleRun) {
	if s.total != nil {
		r.Watch(s.fd, s.at, s.noted)
	}
}

func (s *starvation) take(r ofi.SampleRun) {
	if s.total != nil {
		s.at, s.noted = r.Starved()
	}
}

// since is how much of the pass that began at a time the thread was starved.
func (s *starvation) since(began, now int64) int64 {
	if s.total == nil {
		return 0
	}
	before := s.noted
	s.noted, s.at = s.total(), now
	return min(s.noted-before, now-began)
}

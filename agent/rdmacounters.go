package agent

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// rdmaLookAgain is how long it is believed which RDMA port is behind a network
	// interface.
	rdmaLookAgain = 10 * time.Second
	// rdmaReadAgain is how long a counter is believed: a read may be a firmware
	// command of the device.
	rdmaReadAgain = time.Second
	// rdmaGIDs is how many entries of a port's GID table are looked at.
	rdmaGIDs = 256
)

// retransmitCounters are the names under hw_counters that add up to a device's
// retransmissions, by driver: irdma's own counter; the causes of mlx5's (the
// requester's timeouts and the NAKs it got); rxe's retries, which are both.
var retransmitCounters = [][]string{
	{"RetransSegs"},
	{"tcpRetransSegs"},
	{"local_ack_timeout_err", "packet_seq_err"},
	{"completer_retry_err"},
}

// rdmaCounters reads the retransmission counters of RDMA devices from sysfs.
type rdmaCounters struct {
	sys string // "/sys"
	now func() time.Time

	mu    sync.Mutex
	links map[string]*rdmaLink // by network interface
}

type rdmaLink struct {
	device  string
	files   []string
	foundAt time.Time
	count   uint64
	known   bool
	readAt  time.Time
}

func newRDMACounters(sys string, now func() time.Time) *rdmaCounters {
	return &rdmaCounters{sys: sys, now: now, links: map[string]*rdmaLink{}}
}

// retransmits is the counter of the RDMA device behind a network interface. It is
// not known where there is no such device or it has no such counter.
func (r *rdmaCounters) retransmits(netdev string) (device string, count uint64, known bool) {
	if netdev == "" {
		return "", 0, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	l := r.links[netdev]
	if l == nil || now.Sub(l.foundAt) >= rdmaLookAgain {
		l = &rdmaLink{foundAt: now}
		var port string
		l.device, port = r.find(netdev)
		l.files = countersOf(port)
		r.links[netdev] = l
	}
	if l.files != nil && (l.readAt.IsZero() || now.Sub(l.readAt) >= rdmaReadAgain) {
		l.count, l.known = addUp(l.files)
		l.readAt = now
	}
	return l.device, l.count, l.known
}

// find looks for the device that has a GID of the network interface, then for the
// one on the same card (agent API reference §16.7). port is its directory.
func (r *rdmaCounters) find(netdev string) (device, port string) {
	devices := filepath.Join(r.sys, "class", "infiniband")
	for _, device := range namesIn(devices) {
		ports := filepath.Join(devices, device, "ports")
		for _, number := range namesIn(ports) {
			for i := range rdmaGIDs {
				name := filepath.Join(ports, number, "gid_attrs", "ndevs", strconv.Itoa(i))
				if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == netdev {
					return device, filepath.Join(ports, number)
				}
			}
		}
	}
	card := filepath.Join(r.sys, "class", "net", netdev, "device", "infiniband")
	if list := namesIn(card); len(list) > 0 {
		return list[0], filepath.Join(card, list[0], "ports", "1")
	}
	return "", ""
}

// countersOf are the files that add up to a port's retransmissions, nil where the
// driver counts none.
func countersOf(port string) []string {
	if port == "" {
		return nil
	}
	for _, wanted := range retransmitCounters {
		files := make([]string, 0, len(wanted))
		for _, name := range wanted {
			file := filepath.Join(port, "hw_counters", name)
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			}
		}
		if len(files) == len(wanted) {
			return files
		}
	}
	return nil
}

func addUp(files []string) (total uint64, ok bool) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, false
		}
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			return 0, false
		}
		total += n
	}
	return total, true
}

// namesIn lists a directory in order; none for one that cannot be read.
func namesIn(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	list := make([]string, 0, len(entries))
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

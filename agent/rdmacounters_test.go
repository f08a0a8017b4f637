package agent

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestRetransmits reads trees of the drivers' own names (testdata/sys-*).
func TestRetransmits(t *testing.T) {
	for _, c := range []struct {
		tree, netdev, device string
		count                uint64
		known                bool
	}{
		{"sys-irdma", "ens801f0", "rocep202s0f0", 41, true},
		{"sys-irdma", "ens801f1", "rocep202s0f1", 7, true},
		{"sys-irdma", "eno1", "", 0, false},
		{"sys-irdma", "", "", 0, false},
		{"sys-mlx5", "enp65s0f0np0", "mlx5_0", 12, true},
		{"sys-mlx5", "enp65s0f1np1", "mlx5_1", 0, true},
		{"sys-rxe", "h1", "rxe1", 3, true},
		{"sys-rxe", "h2", "rxe2", 0, true},
		{"sys-none", "eth0", "", 0, false},
		{"sys-uncounted", "eth0", "hfi1_0", 0, false},
	} {
		r := newRDMACounters(filepath.Join("testdata", c.tree), time.Now)
		device, count, known := r.retransmits(c.netdev)
		if device != c.device || count != c.count || known != c.known {
			t.Errorf("%s %q: %q %d %v, want %q %d %v", c.tree, c.netdev, device, count, known, c.device, c.count, c.known)
		}
	}
}

// TestRetransmitsAreReadAgain: a counter that moves, a device that comes later and
// one that goes.
func TestRetransmitsAreReadAgain(t *testing.T) {
	sys := t.TempDir()
	now := time.Unix(1000, 0)
	r := newRDMACounters(sys, func() time.Time { return now })
	expect := func(device string, count uint64, known bool) {
		t.Helper()
		d, n, k := r.retransmits("eth0")
		if d != device || n != count || k != known {
			t.Errorf("at %v: %q %d %v, want %q %d %v", now.Unix(), d, n, k, device, count, known)
		}
	}
	expect("", 0, false)
	port := filepath.Join(sys, "class", "infiniband", "irdma0", "ports", "1")
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(port, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(port, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("gid_attrs/ndevs/0", "eth0\n")
	write("hw_counters/RetransSegs", "5\n")
	expect("", 0, false)
	now = now.Add(rdmaLookAgain)
	expect("irdma0", 5, true)
	write("hw_counters/RetransSegs", "6\n")
	expect("irdma0", 5, true)
	now = now.Add(rdmaReadAgain)
	expect("irdma0", 6, true)
	write("hw_counters/RetransSegs", "no number\n")
	now = now.Add(rdmaReadAgain)
	expect("irdma0", 0, false)
	if err := os.RemoveAll(sys); err != nil {
		t.Fatal(err)
	}
	now = now.Add(rdmaLookAgain)
	expect("", 0, false)
}

package mxl

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// scanTestRoot is an MXL root on tmpfs that goes away with the test.
func scanTestRoot(t testing.TB) string {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "mxl-scan-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(root); err != nil {
			t.Error(err)
		}
	})
	return root
}

// scanTestDomain makes a domain below root.
func scanTestDomain(t testing.TB, root, dir, def string) *Domain {
	t.Helper()
	path := filepath.Join(root, dir)
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if def != "" {
		scanPut(t, filepath.Join(path, nameDomainDef), def)
	}
	d, err := OpenDomain(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func scanPut(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func scanTestDataDef(id uuid.UUID) []byte {
	return fmt.Appendf(nil, `{"id":%q,"format":"urn:x-nmos:format:data","label":"anc","media_type":"video/smpte291",`+
		`"grain_rate":{"numerator":50,"denominator":1},"tags":{"urn:x-nmos:tag:grouphint/v1.0":["g:Data"]}}`, id)
}

func scanTestAudioDef(id uuid.UUID) []byte {
	return fmt.Appendf(nil, `{"id":%q,"format":"urn:x-nmos:format:audio","label":"pgm","media_type":"audio/float32","bit_depth":32,`+
		`"channel_count":2,"sample_rate":{"numerator":48000},"tags":{"urn:x-nmos:tag:grouphint/v1.0":["g:Audio"]}}`, id)
}

// scanTestFlow creates a data flow whose writer is closed at the end of the test.
func scanTestFlow(t testing.TB, d *Domain, id uuid.UUID) *DiscreteWriter {
	t.Helper()
	w, _, err := d.CreateDiscreteWriter(scanTestDataDef(id), FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func scanTestGrain(t testing.TB, w *DiscreteWriter, index uint64) {
	t.Helper()
	if _, err := w.OpenGrain(index); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(index, w.TotalSlices(), 0); err != nil {
		t.Fatal(err)
	}
}

// scanLog collects log lines.
type scanLog struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *scanLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *scanLog) count(event string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), "msg="+event+" ")
}

func (l *scanLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// scanTestRun runs a scanner for the length of the test, after its first scan.
func scanTestRun(t testing.TB, root string, interval time.Duration, change ...func(*Scanner)) (*Scanner, *scanLog) {
	t.Helper()
	log := &scanLog{}
	s, err := NewScanner(ScannerConfig{Root: root, HostID: "here", Interval: interval,
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range change {
		c(s)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	select {
	case <-s.First():
	case <-time.After(10 * time.Second):
		t.Fatal("no first scan")
	}
	return s, log
}

// scanAwait waits until a snapshot satisfies want.
func scanAwait(t testing.TB, s *Scanner, what string, want func(*Snapshot) bool) Snapshot {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		snap := s.Snapshot()
		if want(&snap) {
			return snap
		}
		select {
		case <-s.Changed():
		case <-deadline:
			t.Fatalf("%s: not seen; snapshot %+v", what, snap)
		}
	}
}

func scanHasFlow(domain string, id uuid.UUID) func(*Snapshot) bool {
	return func(s *Snapshot) bool {
		d := s.Domain(domain, DomainLocal)
		return d != nil && d.Flow(id) != nil
	}
}

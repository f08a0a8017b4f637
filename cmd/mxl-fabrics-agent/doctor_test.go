package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// diskDir is a directory that is not on a tmpfs and that every user may enter.
func diskDir(t *testing.T) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, parent := range []string{os.TempDir(), "/var/tmp", here} {
		var st unix.Statfs_t
		if unix.Statfs(parent, &st) != nil || st.Type == unix.TMPFS_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(parent, "mxl-root-*")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Fatal("no directory that is not on a tmpfs")
	return ""
}

// TestDoctorOfAPoorHost runs the program as an ordinary user with memlock 64k on
// an MXL root on a disk: it has to say each of the faults, with the remedy. What
// cannot be arranged (the TAI offset and the RDMA devices are the kernel's) is
// expected as it is here.
func TestDoctorOfAPoorHost(t *testing.T) {
	dir, path := publicDir(t)
	disk := diskDir(t)
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o777); err != nil {
		t.Fatal(err)
	}
	environment := append(portsOf(freePorts(t, testPorts)), "HOST_ID=poor", "MXL_ROOT="+disk, "STATE_DIR="+state, "NMOS_HOST_ADDRESS=192.0.2.1")
	type expected struct{ state, what, remedy string }
	want := map[string]expected{
		"memlock":        {"fail", "memlock is 64 KiB: verbs has to lock", "ulimit -l unlimited"},
		"mxl_root_tmpfs": {"warn", disk + " is not on a tmpfs", "mount -t tmpfs"},
		"cap_sys_ptrace": {"warn", "CAP_SYS_PTRACE is missing", "capabilities.add"},
		"reader_sight":   {"warn", "Not every process can be looked at", "CAP_SYS_PTRACE"},
	}
	offset, err := mxl.TAIOffset()
	if err != nil {
		t.Fatal(err)
	}
	if offset == 0 {
		want["tai_offset"] = expected{"warn", "TAI offset is 0", "chrony"}
	}
	if devices, _ := filepath.Glob("/sys/class/infiniband/*"); len(devices) == 0 {
		want["rdma_devices"] = expected{"fail", "no RDMA device", "DEFAULT_PROVIDER=tcp"}
		want["provider_verbs"] = expected{"fail", "Provider verbs cannot be used", "PROVIDER_FALLBACK=tcp"}
	}
	t.Logf("TAI offset %d s, %d findings to be made", offset, len(want))

	p := newProgram(t, path, environment, "doctor", "--json")
	p.unprivileged()
	withLimits(p, "-l", 64)
	if code := p.run(t); code != exitBroken {
		t.Fatalf("exit code %d, want %d\n%s%s", code, exitBroken, p.stdout.String(), p.stderr.String())
	}
	var report struct {
		OK       bool `json:"ok"`
		Findings []struct{ Check, State, What, Remedy string }
	}
	if err := json.Unmarshal(p.stdout.Bytes(), &report); err != nil {
		t.Fatalf("%v in %s", err, p.stdout.String())
	}
	for check, w := range want {
		said := false
		for _, f := range report.Findings {
			if f.Check == check && f.State == w.state && strings.Contains(f.What, w.what) && strings.Contains(f.Remedy, w.remedy) {
				said = true
			}
		}
		if !said {
			t.Errorf("%s: want %+v in\n%s", check, w, p.stdout.String())
		}
	}
	if report.OK {
		t.Error("the report is ok")
	}

	text := newProgram(t, path, environment, "doctor")
	text.unprivileged()
	withLimits(text, "-l", 64)
	if code := text.run(t); code != exitBroken {
		t.Errorf("exit code %d", code)
	}
	for check, w := range want {
		_, after, _ := strings.Cut("\n"+text.stdout.String(), fmt.Sprintf("\n%-5s %-21s ", w.state, check))
		line, rest, _ := strings.Cut(after, "\n")
		remedy, _, _ := strings.Cut(rest, "\n")
		if !strings.Contains(line, w.what) || !strings.Contains(remedy, "> ") || !strings.Contains(remedy, w.remedy) {
			t.Errorf("%s: %q, %q", check, line, remedy)
		}
	}
}

package plant

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func namePrefix(pid int) string { return "mxlplant" + strconv.Itoa(pid) + "-" }
func mountName(pid int) string  { return "mxl-plant-" + strconv.Itoa(pid) }

// sweep removes what plants left behind whose process was killed. What cannot be
// removed stays: the names of a new plant are others.
func sweep() {
	entries, _ := os.ReadDir(namespaces)
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), "mxlplant")
		if pid, _, ok := strings.Cut(rest, "-"); ours && ok && ended(pid) {
			_ = removeNamespace(e.Name())
		}
	}
	mounts, _ := os.ReadFile("/proc/self/mounts")
	for _, root := range abandoned(string(mounts), ended) {
		if unix.Unmount(root, unix.MNT_DETACH) == nil {
			_ = os.RemoveAll(filepath.Dir(root))
		}
	}
}

// abandoned lists the MXL roots, in the text of /proc/self/mounts, of plants
// whose process has ended.
func abandoned(mounts string, ended func(pid string) bool) (roots []string) {
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[2] != "tmpfs" {
			continue
		}
		if pid, ours := strings.CutPrefix(fields[0], "mxl-plant-"); ours && ended(pid) {
			roots = append(roots, fields[1])
		}
	}
	return roots
}

// ended reports whether no process has the id.
func ended(pid string) bool {
	n, err := strconv.Atoi(pid)
	return err == nil && unix.Kill(n, 0) == unix.ESRCH
}

package doctor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// path is a file of the host below Root.
func (s *System) path(elements ...string) string {
	return filepath.Join(append([]string{s.Root + "/"}, elements...)...)
}

// effectiveCapabilities reads CapEff of /proc/self/status.
func (s *System) effectiveCapabilities() (uint64, error) {
	text, err := os.ReadFile(s.path("proc/self/status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		}
	}
	return 0, os.ErrNotExist
}

func (e *examination) capabilities() {
	have, err := e.sys.effectiveCapabilities()
	if err != nil {
		e.found("capabilities", Note, "", "The capabilities of this process cannot be read: %v.", err)
		return
	}
	const grant = "Add it to the container or Pod (capabilities.add), or to the binary: setcap cap_ipc_lock,cap_sys_nice,cap_sys_ptrace+ep mxl-fabrics-agent."
	for _, c := range []struct {
		check, name string
		bit         uint
		harmless    bool
		without     string
	}{
		{"cap_ipc_lock", "CAP_IPC_LOCK", unix.CAP_IPC_LOCK, true, "memory beyond memlock cannot be registered over verbs"},
		{"cap_sys_nice", "CAP_SYS_NICE", unix.CAP_SYS_NICE, e.cfg.RTPriority == 0, "RT_PRIORITY has no effect"},
		{"cap_sys_ptrace", "CAP_SYS_PTRACE", unix.CAP_SYS_PTRACE, false, "the readers of mirrors cannot be seen, so mirrors are not removed"},
	} {
		if have&(1<<c.bit) != 0 {
			e.ok(c.check, "%s is there.", c.name)
		} else {
			e.found(c.check, unless(c.harmless, Warn), grant, "%s is missing: %s.", c.name, c.without)
		}
	}
	if e.cfg.RTPriority >= 50 {
		e.found("rt_priority", Warn, "Use 49 or less.", "RT_PRIORITY is %d: the kernel's threaded interrupts run at 50 and wait for the lanes.", e.cfg.RTPriority)
	}
}

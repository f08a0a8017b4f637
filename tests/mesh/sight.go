package mesh

import (
	"os"
	"os/exec"
	"strconv"
)

// SeeAll lets an agent's reader check see every process where that can be had:
// in some sandboxes not even root may look at process 1, which reads no mirror of
// a test. It is covered by a process of ours then, in a mount namespace of the
// agent's own. The answer says whether the agent will see all: it takes root in
// the initial PID namespace.
func (m *Mesh) SeeAll(a *Agent) (bool, error) {
	if os.Geteuid() != 0 {
		return false, nil
	}
	if namespace, err := os.Readlink("/proc/self/ns/pid"); err != nil || namespace != initialPIDNamespace {
		return false, err
	}
	if _, err := os.ReadFile("/proc/1/maps"); err == nil {
		return true, nil
	}
	if exec.Command("unshare", "-m", "true").Run() != nil {
		return false, nil
	}
	cover, err := startProcess(m.Logs, "cover", nil, "sleep", "infinity")
	if err != nil {
		return false, err
	}
	m.processes = append(m.processes, cover)
	a.Through = []string{"unshare", "-m", "sh", "-c", `mount --bind /proc/` + strconv.Itoa(cover.PID()) + ` /proc/1 && exec "$0"`}
	return true, nil
}

// initialPIDNamespace is what /proc/self/ns/pid reads in the initial PID
// namespace (PROC_PID_INIT_INO in the kernel's include/linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

package doctor

import (
	"os"
	"path/filepath"
	"syscall"
)

// What the agent and the MXL instances of media functions of the same user want
// together.
const (
	wantedInstances = 512
	wantedWatches   = 65536
)

func (e *examination) inotify() {
	instances, err := e.sys.number("proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		e.found("inotify", Note, "", "The inotify limits cannot be read: %v.", err)
		return
	}
	used := e.sys.inotifyInstances(os.Geteuid())
	switch {
	case used+2 > int(instances):
		e.found("inotify_instances", Fail, "sysctl fs.inotify.max_user_instances=1024.",
			"fs.inotify.max_user_instances is %d and this user's processes hold %d: the agent cannot open its 2.", instances, used)
	case instances < wantedInstances:
		e.found("inotify_instances", Note, "sysctl fs.inotify.max_user_instances=1024 on hosts with many domains.",
			"fs.inotify.max_user_instances is %d, %d in use: every media function of this user takes one for each MXL instance.", instances, used)
	default:
		e.ok("inotify_instances", "fs.inotify.max_user_instances is %d, %d in use.", instances, used)
	}
	watches, err := e.sys.number("proc/sys/fs/inotify/max_user_watches")
	switch {
	case err != nil:
		e.found("inotify_watches", Note, "", "fs.inotify.max_user_watches cannot be read: %v.", err)
	case watches < wantedWatches:
		e.found("inotify_watches", Warn, "sysctl fs.inotify.max_user_watches=524288.", "fs.inotify.max_user_watches is %d.", watches)
	default:
		e.ok("inotify_watches", "fs.inotify.max_user_watches is %d.", watches)
	}
}

// inotifyInstances counts the inotify descriptors of a user's processes, as far
// as they can be seen.
func (s *System) inotifyInstances(uid int) (count int) {
	processes, _ := filepath.Glob(s.path("proc/[0-9]*"))
	for _, process := range processes {
		info, err := os.Stat(process)
		if err != nil {
			continue
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != uid {
			continue
		}
		descriptors, err := os.ReadDir(filepath.Join(process, "fd"))
		if err != nil {
			continue
		}
		for _, d := range descriptors {
			if target, err := os.Readlink(filepath.Join(process, "fd", d.Name())); err == nil && target == "anon_inode:inotify" {
				count++
			}
		}
	}
	return count
}

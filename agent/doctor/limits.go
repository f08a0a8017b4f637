package doctor

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// unlimited is the value of a limit that is none.
const unlimited = ^uint64(0)

// What the agent wants; docs/operations.md, "Limits of the process".
const (
	wantedFiles = 65536
	wantedLock  = 1 << 30 // bytes: the rings of some tens of HD flows
)

// limit is one line of /proc/self/limits.
type limit struct{ Soft, Hard uint64 }

// parseLimit finds a limit by its name in the text of /proc/self/limits.
func parseLimit(text, name string) (limit, error) {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			break
		}
		soft, err := limitValue(fields[0])
		if err != nil {
			return limit{}, err
		}
		hard, err := limitValue(fields[1])
		return limit{soft, hard}, err
	}
	return limit{}, fmt.Errorf("no line %q", name)
}

func limitValue(text string) (uint64, error) {
	if text == "unlimited" {
		return unlimited, nil
	}
	return strconv.ParseUint(text, 10, 64)
}

func (e *examination) limits() {
	text, err := os.ReadFile(e.sys.path("proc/self/limits"))
	if err != nil {
		e.found("limits", Note, "", "The limits of this process cannot be read: %v.", err)
		return
	}
	e.memlock(string(text))
	files, err := parseLimit(string(text), "Max open files")
	switch {
	case err != nil:
		e.found("open_files", Note, "", "The limit of open files cannot be read: %v.", err)
	case files.Hard < wantedFiles:
		e.found("open_files", Warn, "Raise nofile (LimitNOFILE=, ulimits in Compose, limits.conf): every grain of a mirror is a file.",
			"At most %d files may be open; many mirrors need more than %d.", files.Hard, wantedFiles)
	default:
		e.ok("open_files", "%s files may be open (the agent raises its soft limit).", number(files.Hard))
	}
	e.maps()
}

func (e *examination) memlock(text string) {
	lock, err := parseLimit(text, "Max locked memory")
	if err != nil {
		e.found("memlock", Note, "", "The limit of locked memory cannot be read: %v.", err)
		return
	}
	capabilities, _ := e.sys.effectiveCapabilities()
	remedy := "ulimit -l unlimited (LimitMEMLOCK=infinity, ulimits.memlock: -1 in Compose), or CAP_IPC_LOCK."
	switch {
	case capabilities&(1<<unix.CAP_IPC_LOCK) != 0:
		e.ok("memlock", "memlock is %s; CAP_IPC_LOCK stands above it.", bytes(lock.Soft))
	case lock.Soft < wantedLock:
		e.found("memlock", unless(!e.overVerbs(), Fail), remedy,
			"memlock is %s: verbs has to lock the rings of all flows; tcp does not.", bytes(lock.Soft))
	default:
		e.ok("memlock", "memlock is %s.", bytes(lock.Soft))
	}
}

// wantedMaps is the kernel's own default of vm.max_map_count.
const wantedMaps = 65530

func (e *examination) maps() {
	count, err := e.sys.number("proc/sys/vm/max_map_count")
	switch {
	case err != nil:
		e.found("max_map_count", Note, "", "vm.max_map_count cannot be read: %v.", err)
	case count < wantedMaps:
		e.found("max_map_count", Warn, fmt.Sprintf("sysctl vm.max_map_count=%d: every grain of a flow is a mapping.", wantedMaps), "vm.max_map_count is %d.", count)
	default:
		e.ok("max_map_count", "vm.max_map_count is %d.", count)
	}
}

// number reads a file that holds one number.
func (s *System) number(name string) (uint64, error) {
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

func number(n uint64) string {
	if n == unlimited {
		return "any number of"
	}
	return strconv.FormatUint(n, 10)
}

func bytes(n uint64) string {
	switch {
	case n == unlimited:
		return "unlimited"
	case n >= 1<<20:
		return strconv.FormatUint(n>>20, 10) + " MiB"
	}
	return strconv.FormatUint(n>>10, 10) + " KiB"
}

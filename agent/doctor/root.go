package doctor

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Filesystem is what statfs says of the MXL root.
type Filesystem struct {
	Tmpfs      bool
	ReadOnly   bool
	Free, Size uint64 // bytes; free for this process
}

func (e *examination) root() {
	path := e.cfg.ScanPath
	info, err := os.Stat(path)
	switch {
	case err != nil:
		e.found("mxl_root", Fail, "Create it and mount a tmpfs there, or set MXL_DOMAIN_SCAN_PATH.", "%s cannot be looked at: %v.", path, err)
		return
	case !info.IsDir():
		e.found("mxl_root", Fail, "Set MXL_DOMAIN_SCAN_PATH to the directory of the MXL domains.", "%s is no directory.", path)
		return
	}
	volume, err := e.sys.Statfs(path)
	if err != nil {
		e.found("mxl_root", Fail, "Look at the mount.", "statfs of %s: %v.", path, err)
		return
	}
	if volume.Tmpfs {
		e.ok("mxl_root_tmpfs", "%s is on a tmpfs.", path)
	} else {
		e.found("mxl_root_tmpfs", Warn, "Mount a tmpfs: mount -t tmpfs -o size=16g,mode=1777 tmpfs "+path+".", "%s is not on a tmpfs: grains go through a disk's cache and are written back.", path)
	}
	switch err := e.sys.Access(path); {
	case volume.ReadOnly:
		e.found("mxl_root_permissions", Fail, "Mount it read-write.", "%s is mounted read-only: no mirror can be made.", path)
	case err != nil:
		e.found("mxl_root_permissions", Fail, "Run the agent as the user or group that owns it, or give it a mode that lets it write (chmod 1777 "+path+").",
			"This process may not write to %s (mode %04o): %v.", path, info.Mode().Perm(), err)
	default:
		e.ok("mxl_root_permissions", "%s can be written.", path)
	}
	reserve := uint64(e.cfg.TmpfsReserveMB) << 20
	if volume.Free <= reserve {
		e.found("mxl_root_space", Fail, "Enlarge it (mount -o remount,size=…), remove what is not needed, or lower TMPFS_RESERVE_MB.",
			"%d of %d MiB are free and TMPFS_RESERVE_MB is %d: no mirror can be made.", volume.Free>>20, volume.Size>>20, e.cfg.TmpfsReserveMB)
	} else {
		e.ok("mxl_root_space", "%d of %d MiB are free, %d MiB of it above TMPFS_RESERVE_MB.", volume.Free>>20, volume.Size>>20, (volume.Free-reserve)>>20)
	}
}

// state looks at where changes of the configuration are saved.
func (e *examination) state() {
	dir := e.cfg.StateDir
	remedy := "Mount it read-write for the agent's user, or set STATE_DIR: without it changes through the API last until the agent stops."
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.found("state_dir", Note, "", "STATE_DIR %s does not exist; the agent makes it if it may.", dir)
	case err != nil:
		e.found("state_dir", Warn, remedy, "STATE_DIR %s cannot be looked at: %v.", dir, err)
	case !info.IsDir():
		e.found("state_dir", Warn, remedy, "STATE_DIR %s is no directory.", dir)
	default:
		if err := e.sys.Access(dir); err != nil {
			e.found("state_dir", Warn, remedy, "This process may not write to STATE_DIR %s (mode %04o): %v.", dir, info.Mode().Perm(), err)
			return
		}
		e.ok("state_dir", "STATE_DIR %s can be written.", dir)
	}
}

// statfs is the real Filesystem of a path.
func statfs(path string) (Filesystem, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Filesystem{}, err
	}
	return Filesystem{
		Tmpfs: st.Type == unix.TMPFS_MAGIC, ReadOnly: st.Flags&unix.ST_RDONLY != 0,
		Free: st.Bavail * uint64(st.Bsize), Size: st.Blocks * uint64(st.Bsize),
	}, nil
}

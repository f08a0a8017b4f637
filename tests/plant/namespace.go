package plant

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespaces is where ip keeps named network namespaces.
const namespaces = "/run/netns"

// namespace is a named network namespace.
type namespace struct {
	name   string
	fd     int
	handle *netlink.Handle
	client *http.Client
}

// newNamespace makes a namespace and turns its loopback on.
func newNamespace(name string) (*namespace, error) {
	if err := ip("netns", "add", name); err != nil {
		return nil, err
	}
	n := &namespace{name: name, fd: -1}
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

func (n *namespace) open() (err error) {
	path := filepath.Join(namespaces, n.name)
	if n.fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	// A socket stays in the namespace it was made in.
	if err := n.do(func() (err error) { n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); return err }); err != nil {
		return err
	}
	n.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = n.do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}}}
	return n.up("lo")
}

// do runs f on a thread inside the namespace.
func (n *namespace) do(f func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer unix.Close(own)
		err = unix.Setns(n.fd, unix.CLONE_NEWNET)
		if err == nil {
			err = f()
		} else {
			err = fmt.Errorf("enter namespace %s: %w", n.name, err)
		}
		// The thread goes back to the others rather than ending with this
		// goroutine: a thread's end kills the programs that it started.
		if back := unix.Setns(own, unix.CLONE_NEWNET); back != nil {
			result <- errors.Join(err, fmt.Errorf("leave namespace %s: %w", n.name, back))
			return
		}
		runtime.UnlockOSThread()
		result <- err
	}()
	return <-result
}

// through is the command that runs a program in the namespace, with a /sys that
// shows its devices.
func (n *namespace) through() []string { return []string{"ip", "netns", "exec", n.name} }

func (n *namespace) up(device string) error   { return n.flag(device, n.handle.LinkSetUp) }
func (n *namespace) down(device string) error { return n.flag(device, n.handle.LinkSetDown) }

func (n *namespace) flag(device string, set func(netlink.Link) error) error {
	link, err := n.handle.LinkByName(device)
	if err == nil {
		err = set(link)
	}
	if err != nil {
		return fmt.Errorf("device %s of %s: %w", device, n.name, err)
	}
	return nil
}

// close ends what still runs in the namespace and removes it.
func (n *namespace) close() error {
	if n.handle != nil {
		n.handle.Close()
	}
	if n.client != nil {
		n.client.CloseIdleConnections()
	}
	if n.fd >= 0 {
		_ = unix.Close(n.fd)
	}
	return removeNamespace(n.name)
}

func removeNamespace(name string) error {
	if pids, err := exec.Command("ip", "netns", "pids", name).Output(); err == nil {
		for pid := range strings.FieldsSeq(string(pids)) {
			_ = exec.Command("kill", "-KILL", pid).Run()
		}
	}
	return ip("netns", "del", name)
}

func ip(arguments ...string) error {
	output, err := exec.Command("ip", arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

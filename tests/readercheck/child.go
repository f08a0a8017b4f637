package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mappings of one child: those of a media function that has much memory, many
// libraries and the grains of one flow.
const (
	anonymousMaps = 1400
	libraryMaps   = 500
	grainMaps     = 100
	mapsPerChild  = anonymousMaps + libraryMaps + grainMaps
)

// children starts n processes that map files below a flow's directory, and waits
// until they have. They end when stop is called, or this process does.
func children(n int, flow string) (stop func(), err error) {
	var inputs []io.Closer
	var commands []*exec.Cmd
	stop = func() {
		for i, c := range commands {
			_ = inputs[i].Close()
			_ = c.Wait()
		}
	}
	self, err := os.Executable()
	if err != nil {
		return stop, err
	}
	for range n {
		c := exec.Command(self)
		c.Env = append(os.Environ(), childVariable+"="+flow, "GOMAXPROCS=1", "GOGC=off")
		c.Stderr = os.Stderr
		in, err := c.StdinPipe()
		if err != nil {
			return stop, err
		}
		out, err := c.StdoutPipe()
		if err != nil {
			return stop, err
		}
		if err := c.Start(); err != nil {
			return stop, err
		}
		commands, inputs = append(commands, c), append(inputs, in)
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.HasPrefix(line, "mapped") {
			return stop, fmt.Errorf("a child said %q: %w", line, err)
		}
	}
	return stop, nil
}

// childVariable makes this program one of the children; it names the flow's
// directory.
const childVariable = "READERCHECK_MAPS"

// child makes the mappings and waits for the end of its input.
func child(flow string) error {
	page := os.Getpagesize()
	for i := range anonymousMaps {
		// Neighbours of the same kind would become one mapping.
		protection := unix.PROT_READ
		if i%2 == 0 {
			protection |= unix.PROT_WRITE
		}
		if _, err := unix.Mmap(-1, 0, page, protection, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS); err != nil {
			return fmt.Errorf("anonymous mapping %d: %w", i, err)
		}
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	if err := mapPages(int(self.Fd()), libraryMaps, unix.MAP_PRIVATE); err != nil {
		return err
	}
	grains, err := filepath.Glob(filepath.Join(flow, "grains", "*"))
	if err != nil || len(grains) == 0 {
		return fmt.Errorf("no grains in %s: %w", flow, err)
	}
	for i := range grainMaps {
		f, err := os.Open(grains[i%len(grains)])
		if err != nil {
			return err
		}
		if err := mapPages(int(f.Fd()), 1, unix.MAP_SHARED); err != nil {
			return err
		}
		_ = f.Close()
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	fmt.Println("mapped " + strconv.Itoa(strings.Count(string(maps), "\n")))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// mapPages maps the first page of a file so often.
func mapPages(fd, times, way int) error {
	for i := range times {
		if _, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, way); err != nil {
			return fmt.Errorf("mapping %d of descriptor %d: %w", i, fd, err)
		}
	}
	return nil
}

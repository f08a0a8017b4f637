package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// programs are the comparison programs of raw, built.
type programs struct{ tcp, fabric string }

// buildPrograms compiles them into dir.
func buildPrograms(ctx context.Context, dir string) (programs, error) {
	source := filepath.Join("tests", "bench", "raw")
	if _, err := os.Stat(source); err != nil {
		return programs{}, fmt.Errorf("run from the top of the repository: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return programs{}, err
	}
	flags, err := exec.CommandContext(ctx, "pkg-config", "--cflags", "--libs", "libfabric").Output()
	if err != nil {
		return programs{}, fmt.Errorf("pkg-config libfabric: %w", err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "gcc"
	}
	build := func(name string, libraries ...string) (string, error) {
		out := filepath.Join(dir, name)
		args := append([]string{"-std=gnu11", "-O2", "-Wall", "-Wextra", "-o", out,
			filepath.Join(source, name+".c"), filepath.Join(source, "measure.c")}, libraries...)
		text, err := exec.CommandContext(ctx, compiler, args...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("%s %s: %w\n%s", compiler, name, err, text)
		}
		return out, nil
	}
	var p programs
	var errTCP, errFabric error
	p.tcp, errTCP = build("tcp")
	p.fabric, errFabric = build("fabric", strings.Fields(string(flags))...)
	return p, errors.Join(errTCP, errFabric)
}

// programResult is print_result of raw/measure.c.
type programResult struct {
	ElapsedNS uint64   `json:"elapsed_ns"`
	CPUNS     uint64   `json:"cpu_ns"`
	Messages  uint64   `json:"messages"`
	Bytes     uint64   `json:"bytes"`
	Stamps    []uint64 `json:"stamps"` // index, nanoseconds, index, …
}

func (r programResult) moments() []moment {
	m := make([]moment, len(r.Stamps)/2)
	for i := range m {
		m[i] = moment{r.Stamps[2*i], r.Stamps[2*i+1]}
	}
	return m
}

// run measures a phase with one of the programs.
func (p programs) run(ctx context.Context, what phase) (outcome, error) {
	program := p.fabric
	if what.way == tcpWay {
		program = p.tcp
	}
	ctx, cancel := context.WithTimeout(ctx, what.span+20*time.Second)
	defer cancel()
	args := []string{string(what.media), string(what.mode), fmt.Sprintf("%.3f", what.span.Seconds()),
		strconv.Itoa(what.media.depth())}
	receiver, err := startChild(ctx, program, append([]string{"recv"}, args...)...)
	if err != nil {
		return outcome{}, err
	}
	defer receiver.kill()
	var listening struct{ Port int }
	if err := receiver.read(&listening); err != nil {
		return outcome{}, err
	}
	args = append(args, strconv.Itoa(listening.Port))
	sender, err := startChild(ctx, program, append([]string{"send"}, args...)...)
	if err != nil {
		return outcome{}, err
	}
	defer sender.kill()
	var sent, got programResult
	if err := errors.Join(sender.read(&sent), receiver.read(&got)); err != nil {
		return outcome{}, err
	}
	if err := errors.Join(sender.end(), receiver.end()); err != nil {
		return outcome{}, err
	}
	if sent.Messages != got.Messages || sent.Bytes != got.Bytes {
		return outcome{}, fmt.Errorf("%w: %d messages of %d bytes sent, %d of %d received", errIncomplete,
			sent.Messages, sent.Bytes, got.Messages, got.Bytes)
	}
	o := outcome{
		elapsed:  time.Duration(got.ElapsedNS),
		cpu:      [2]time.Duration{time.Duration(sent.CPUNS), time.Duration(got.CPUNS)},
		messages: got.Messages,
		bytes:    got.Bytes,
	}
	if !what.mode.backToBack() {
		if o.latency, err = latencies(sent.moments(), got.moments()); err != nil {
			return outcome{}, err
		}
		if o.age, err = ages(what.media.rate(), got.moments()); err != nil {
			return outcome{}, err
		}
	}
	return o, nil
}

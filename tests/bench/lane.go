package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// laneRole is the first argument of a process that holds lanes and nothing else:
// lane source|target DOMAIN FLOW...
const laneRole = "lane"

// laneReport is a lane process's answer: at its start what its targets are, then at
// every line it reads its numbers so far, of all lanes together.
type laneReport struct {
	Targets  []string `json:"targets,omitempty"`
	CPUNS    int64    `json:"cpu_ns"`
	Switches int64    `json:"switches"` // voluntary context switches: times it slept

	Grains, Samples, Bytes uint64 // committed by targets
	Commits                uint64
	Transfers              uint64 // completed by sources
	Connected              int
	Connections            uint64 // made so far
	Skipped, Torn, Errors  uint64
	LastError              string
}

// laneSide is the lanes of one process.
type laneSide struct {
	sources []*fabrics.Source
	targets []*fabrics.Target
	writers []interface{ Close() error }
}

func laneMain(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: lane source|target DOMAIN FLOW...")
	}
	domain, err := mxl.OpenDomain(args[1])
	if err != nil {
		return err
	}
	var s laneSide
	defer s.close()
	var first laneReport
	for _, text := range args[2:] {
		id, err := uuid.Parse(text)
		if err != nil {
			return err
		}
		if args[0] == "source" {
			err = s.openSource(domain, id)
		} else {
			err = s.openTarget(domain, id)
		}
		if err != nil {
			return err
		}
	}
	for _, t := range s.targets {
		first.Targets = append(first.Targets, t.Info().String())
	}
	answers := json.NewEncoder(os.Stdout)
	if err := answers.Encode(first); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	if args[0] == "source" && lines.Scan() {
		if err := s.connect(lines.Bytes()); err != nil {
			return err
		}
		if err := answers.Encode(laneReport{}); err != nil {
			return err
		}
	}
	for lines.Scan() {
		if err := answers.Encode(s.report()); err != nil {
			return err
		}
	}
	return lines.Err()
}

// laneLog shows what goes wrong among the progress lines.
func laneLog() *slog.Logger {
	return slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (s *laneSide) openSource(d *mxl.Domain, id uuid.UUID) error {
	source, err := fabrics.OpenSource(fabrics.SourceConfig{
		Domain: d, FlowID: id, Provider: fabrics.TCP, Address: "127.0.0.1",
		Log: laneLog(),
	})
	if err == nil {
		s.sources = append(s.sources, source)
	}
	return err
}

func (s *laneSide) openTarget(d *mxl.Domain, id uuid.UUID) error {
	cfg := fabrics.TargetConfig{
		FlowID: id, Provider: fabrics.TCP, Address: "127.0.0.1",
		Log: laneLog(),
	}
	info, err := d.FlowInfo(id)
	if err != nil {
		return err
	}
	if info.Format.Discrete() {
		cfg.Discrete, err = d.OpenDiscreteWriter(id)
		s.writers = append(s.writers, cfg.Discrete)
	} else {
		cfg.Continuous, err = d.OpenContinuousWriter(id)
		s.writers = append(s.writers, cfg.Continuous)
	}
	if err != nil {
		return err
	}
	target, err := fabrics.OpenTarget(cfg)
	if err == nil {
		s.targets = append(s.targets, target)
	}
	return err
}

// connect gives every source its target, a JSON array of TargetInfos in the order
// of the flows.
func (s *laneSide) connect(line []byte) error {
	var infos []string
	if err := json.Unmarshal(line, &infos); err != nil {
		return err
	}
	if len(infos) != len(s.sources) {
		return fmt.Errorf("%d targets for %d sources", len(infos), len(s.sources))
	}
	for i, text := range infos {
		info, err := fabrics.ParseTargetInfo(text)
		if err != nil {
			return err
		}
		if err := s.sources[i].SetTarget("mirror", info); err != nil {
			return err
		}
	}
	return nil
}

// report reads the process's usage before it does anything else. What the rest of
// it costs, some microseconds, belongs to the span after it.
func (s *laneSide) report() laneReport {
	var r laneReport
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err == nil {
		r.CPUNS = u.Utime.Nano() + u.Stime.Nano()
		r.Switches = u.Nvcsw
	}
	for _, t := range s.targets {
		stats := t.Stats()
		r.Grains += stats.Grains
		r.Samples += stats.Samples
		r.Bytes += stats.Bytes
		r.Commits += stats.Commits
		r.Errors += stats.Errors
		r.Connections += stats.Connections
		if stats.Connected {
			r.Connected++
		}
		if stats.LastError != "" {
			r.LastError = stats.LastError
		}
	}
	for _, source := range s.sources {
		stats := source.Stats()
		r.Errors += stats.Errors
		for _, t := range stats.Targets {
			r.Transfers += t.Transfers
			r.Skipped += t.Skipped
			r.Torn += t.Torn
			r.Errors += t.Errors
			if t.Connected {
				r.Connected++
			}
			if t.LastError != "" {
				r.LastError = t.LastError
			}
		}
	}
	return r
}

func (s *laneSide) close() {
	for _, source := range s.sources {
		_ = source.Close()
	}
	for _, t := range s.targets {
		_ = t.Close()
	}
	for _, w := range s.writers {
		_ = w.Close()
	}
}

// since is what happened between two reports.
func (r laneReport) since(earlier laneReport) laneReport {
	r.CPUNS -= earlier.CPUNS
	r.Switches -= earlier.Switches
	r.Grains -= earlier.Grains
	r.Samples -= earlier.Samples
	r.Bytes -= earlier.Bytes
	r.Commits -= earlier.Commits
	r.Transfers -= earlier.Transfers
	r.Skipped -= earlier.Skipped
	r.Torn -= earlier.Torn
	r.Errors -= earlier.Errors
	return r
}

func (r laneReport) cpu() time.Duration { return time.Duration(r.CPUNS) }

package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// domainInfo and flowInfo are what info prints.
type domainInfo struct {
	ID        string     `json:"domain_id"`
	Label     string     `json:"label"`
	Class     string     `json:"class"`
	Path      string     `json:"path"`
	HistoryMS float64    `json:"history_ms"`
	Source    string     `json:"source_host_id,omitempty"`
	Owner     string     `json:"owner_host_id,omitempty"`
	Flows     []flowInfo `json:"flows"`
}

type flowInfo struct {
	ID        string       `json:"flow_id"`
	Label     string       `json:"label"`
	MediaType string       `json:"media_type"`
	Geometry  string       `json:"geometry"`
	Rate      mxl.Rational `json:"rate"`
	Ring      uint64       `json:"ring_depth"`
	Payload   uint64       `json:"payload_size"`
	Head      uint64       `json:"head_index"`
	AgeMS     float64      `json:"head_age_ms"` // now − time of the head
	Active    bool         `json:"active"`
	Live      bool         `json:"live"`
	Inode     uint64       `json:"inode"`
	Bytes     uint64       `json:"bytes"` // of the ring
	Reason    string       `json:"not_replicable"`
}

type rootInfo struct {
	Path     string       `json:"path"`
	TAI      int          `json:"tai_offset_seconds"`
	Domains  []domainInfo `json:"domains"`
	Problems []string     `json:"problems"`
}

func runInfo(_ context.Context, args []string, t terminal) error {
	var (
		fs     = flag.NewFlagSet("info", flag.ContinueOnError)
		hostID = fs.String("host-id", os.Getenv("HOST_ID"), "`host id` whose mirrors are own ones; without one no mirror is called a conflict")
		asJSON = fs.Bool("json", false, "print one JSON object")
	)
	positional, err := parseArguments(fs, args, t, "info [options] PATH")
	if err != nil {
		return err
	}
	if len(positional) != 1 {
		return fmt.Errorf("%w: want PATH, got %q", errUsage, positional)
	}
	info, err := gatherInfo(positional[0], *hostID)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(t.out).Encode(info)
	}
	info.print(t)
	return nil
}

// gatherInfo describes an MXL root, or the one domain at path, which needs no domain_def.json.
func gatherInfo(path, hostID string) (rootInfo, error) {
	path = filepath.Clean(path)
	info := rootInfo{Path: path, Domains: []domainInfo{}, Problems: []string{}}
	info.TAI, _ = mxl.TAIOffset()
	now := mxl.Now()
	if one, err := mxl.ScanDomain(path, hostID); err == nil && (one.ID != "" || len(one.Flows) > 0) {
		info.Domains = append(info.Domains, describeDomain(&one, hostID, now))
		return info, nil
	}
	snap, err := mxl.ScanRoot(path, hostID)
	if err != nil {
		return info, err
	}
	for i := range snap.Domains {
		info.Domains = append(info.Domains, describeDomain(&snap.Domains[i], hostID, now))
	}
	for _, p := range snap.Problems {
		info.Problems = append(info.Problems, p.Path+": "+p.Reason)
	}
	return info, nil
}

func describeDomain(d *mxl.DomainRecord, hostID string, now uint64) domainInfo {
	out := domainInfo{ID: d.ID, Label: d.Label, Class: string(d.Class), Path: d.Path, HistoryMS: float64(d.HistoryNS) / 1e6,
		Source: d.SourceHostID, Owner: d.OwnerHostID, Flows: []flowInfo{}}
	if hostID == "" && d.Class == mxl.DomainConflict {
		out.Class = string(mxl.DomainMirror) // whose it is, nobody has said
	}
	for i := range d.Flows {
		out.Flows = append(out.Flows, describeFlow(&d.Flows[i], now))
	}
	return out
}

func describeFlow(f *mxl.FlowRecord, now uint64) flowInfo {
	out := flowInfo{ID: strings.TrimSuffix(f.Directory, mxl.FlowSuffix), MediaType: f.MediaType, Rate: f.Rate, Ring: f.RingDepth,
		Payload: f.PayloadSize, Head: f.HeadIndex, Active: f.Active, Live: f.Live, Inode: f.Inode, Reason: f.Reason,
		Bytes: f.RingDepth * f.PayloadSize}
	if f.HeadIndex != 0 && f.Rate.Valid() {
		out.AgeMS = thousandths((float64(now) - float64(f.Rate.TimeOf(f.HeadIndex))) / 1e6)
	}
	if d := f.Def; d != nil {
		out.Label = d.Label
		switch f.Format {
		case mxl.FormatVideo:
			out.Geometry = fmt.Sprintf("%dx%d %s", d.Width, d.Height, d.Interlace)
		case mxl.FormatAudio:
			out.Geometry = fmt.Sprintf("%d ch, %d bit", d.ChannelCount, d.BitDepth)
		}
	}
	return out
}

func (r *rootInfo) print(t terminal) {
	fmt.Fprintf(t.out, "%s: %d domains, kernel TAI offset %d s\n", r.Path, len(r.Domains), r.TAI)
	for _, d := range r.Domains {
		id := d.ID
		if id == "" {
			id = "(no domain_def.json)"
		}
		fmt.Fprintf(t.out, "\n%s  %s  %s %q, history %g ms\n", filepath.Base(d.Path), id, d.Class, d.Label, d.HistoryMS)
		if d.Source != "" {
			fmt.Fprintf(t.out, "  mirror of %s, owned by %s\n", d.Source, d.Owner)
		}
		for _, f := range d.Flows {
			state := "no writer"
			switch {
			case f.Live:
				state = "live"
			case f.Active:
				state = "written, not live"
			}
			fmt.Fprintf(t.out, "  %s  %s %s %s/s  %s\n", f.ID, f.MediaType, f.Geometry, f.Rate, state)
			fmt.Fprintf(t.out, "    %q, ring %d × %d bytes (%.1f MB), head %d, %.1f ms ago, inode %d\n", f.Label, f.Ring, f.Payload,
				float64(f.Bytes)/1e6, f.Head, f.AgeMS, f.Inode)
			if f.Reason != "" {
				fmt.Fprintf(t.out, "    not replicable: %s\n", f.Reason)
			}
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(t.out, "\nproblem: %s\n", p)
	}
}

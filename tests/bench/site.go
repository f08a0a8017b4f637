package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// laneSite makes flows below root and lets lanes move them.
type laneSite struct{ program, root string }

// lanePair is an origin domain and a mirror domain, the flows in both, and a
// process of lanes for each.
type lanePair struct {
	dir            string
	flows          []uuid.UUID
	origin, mirror *mxl.Domain
	source, target *child
	writers        []flowWriter // of the origin, held by this process
}

// flowWriter is what both kinds of writers have in common.
type flowWriter interface {
	Head() uint64
	Close() error
}

// definition is the flow definition of a medium in its benchmark size, or as small
// as v210 goes where only the lane matters.
func definition(m media, id uuid.UUID, small bool) []byte {
	hint := `"tags":{"urn:x-nmos:tag:grouphint/v1.0":["bench:` + string(m) + `"]}`
	if m == audio {
		return fmt.Appendf(nil, `{"id":"%v","label":"bench audio","description":"benchmark","parents":[],%s,`+
			`"format":"urn:x-nmos:format:audio","media_type":"audio/float32","sample_rate":{"numerator":48000},`+
			`"channel_count":%d,"bit_depth":32}`, id, hint, channelCount)
	}
	w, h := 1920, 1080
	if small {
		w, h = 96, 54
	}
	return fmt.Appendf(nil, `{"id":"%v","label":"bench video","description":"benchmark","parents":[],%s,`+
		`"format":"urn:x-nmos:format:video","media_type":"video/v210","grain_rate":{"numerator":50},`+
		`"frame_width":%d,"frame_height":%d,"interlace_mode":"progressive","colorspace":"BT709","components":[`+
		`{"name":"Y","width":%[3]d,"height":%[4]d,"bit_depth":10},`+
		`{"name":"Cb","width":%[5]d,"height":%[4]d,"bit_depth":10},`+
		`{"name":"Cr","width":%[5]d,"height":%[4]d,"bit_depth":10}]}`, id, hint, w, h, w/2)
}

// open makes count flows, starts the lanes and waits for nothing.
func (s laneSite) open(ctx context.Context, m media, count int, small bool) (p *lanePair, err error) {
	p = &lanePair{}
	defer func() {
		if err != nil {
			p.kill()
		}
	}()
	if p.dir, err = os.MkdirTemp(s.root, string(m)+"-"); err != nil {
		return p, err
	}
	for _, side := range []struct {
		name   string
		domain **mxl.Domain
	}{{"origin", &p.origin}, {"mirror", &p.mirror}} {
		path := filepath.Join(p.dir, side.name)
		if err := os.Mkdir(path, 0o755); err != nil {
			return p, err
		}
		if *side.domain, err = mxl.OpenDomain(path); err != nil {
			return p, err
		}
	}
	names := []string{}
	for range count {
		id := uuid.New()
		p.flows = append(p.flows, id)
		names = append(names, id.String())
		def := definition(m, id, small)
		w, err := createFlow(p.origin, m, def)
		if err != nil {
			return p, err
		}
		p.writers = append(p.writers, w)
		mirror, err := createFlow(p.mirror, m, def)
		if err != nil {
			return p, err
		}
		if err := mirror.Close(); err != nil {
			return p, err
		}
	}
	return p, p.startLanes(ctx, s.program, names)
}

// createFlow makes a flow whose pages are all present.
func createFlow(d *mxl.Domain, m media, def []byte) (flowWriter, error) {
	if m == audio {
		w, _, err := d.CreateContinuousWriter(def, mxl.FlowOptions{
			MaxCommitBatchSizeHint: commitSamples, MaxSyncBatchSizeHint: entrySamples})
		if err != nil {
			return nil, err
		}
		clear(w.Channels())
		return w, nil
	}
	w, _, err := d.CreateDiscreteWriter(def, mxl.FlowOptions{})
	if err != nil {
		return nil, err
	}
	for slot := range int(w.Depth()) {
		clear(w.Slot(slot)[mxl.PayloadOffset:])
	}
	return w, nil
}

func (p *lanePair) startLanes(ctx context.Context, program string, names []string) (err error) {
	var targets, none laneReport
	if p.target, err = startLaneChild(ctx, program, append([]string{laneRole, "target", p.mirror.Path()}, names...)...); err != nil {
		return err
	}
	if err := p.target.read(&targets); err != nil {
		return err
	}
	if p.source, err = startLaneChild(ctx, program, append([]string{laneRole, "source", p.origin.Path()}, names...)...); err != nil {
		return err
	}
	if err := p.source.read(&none); err != nil {
		return err
	}
	infos, err := json.Marshal(targets.Targets)
	if err != nil {
		return err
	}
	return p.source.ask(string(infos), &none)
}

// report asks both processes for their numbers.
func (p *lanePair) report() (source, target laneReport, err error) {
	err = errors.Join(p.source.ask("report", &source), p.target.ask("report", &target))
	return source, target, err
}

// awaitConnections polls until every lane is connected.
func (p *lanePair) awaitConnections(ctx context.Context) error {
	deadline := time.Now().Add(15 * time.Second)
	for {
		source, target, err := p.report()
		if err != nil {
			return err
		}
		if source.Connected == len(p.flows) && target.Connected == len(p.flows) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d and %d of %d lanes connected: %s %s", source.Connected, target.Connected,
				len(p.flows), source.LastError, target.LastError)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// end ends the lanes and removes the flows.
func (p *lanePair) end() error {
	err := errors.Join(p.source.end(), p.target.end())
	p.kill()
	return err
}

func (p *lanePair) kill() {
	p.source.kill()
	p.target.kill()
	for _, w := range p.writers {
		_ = w.Close()
	}
	if p.dir != "" {
		_ = os.RemoveAll(p.dir)
	}
}

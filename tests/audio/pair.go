package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// pair is a source and a target of one flow.
type pair struct {
	target *fabrics.Target
	source *fabrics.Source
	writer interface{ Close() error } // of the mirror
}

// openDomain makes an MXL domain with a history of 200 ms.
func openDomain(path string) (*mxl.Domain, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	options := `{"urn:x-mxl:option:history_duration/v1.0":200000000}`
	if err := os.WriteFile(path+"/options.json", []byte(options), 0o644); err != nil {
		return nil, err
	}
	return mxl.OpenDomain(path)
}

// openPair mirrors the flow of origin in mirror.
func openPair(origin, mirror *mxl.Domain, id uuid.UUID, pipeline bool) (p *pair, err error) {
	p = &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	def, err := origin.ReadFlowDef(id)
	if err != nil {
		return p, err
	}
	info, err := origin.FlowInfo(id)
	if err != nil {
		return p, err
	}
	hints := mxl.FlowOptions{MaxCommitBatchSizeHint: info.MaxCommitBatchSizeHint, MaxSyncBatchSizeHint: info.MaxSyncBatchSizeHint}
	target := fabrics.TargetConfig{FlowID: id, Provider: fabrics.TCP, Address: "127.0.0.1"}
	if info.Format.Discrete() {
		w, _, err := mirror.CreateDiscreteWriter(def, hints)
		if err != nil {
			return p, err
		}
		p.writer, target.Discrete = w, w
	} else {
		w, _, err := mirror.CreateContinuousWriter(def, hints)
		if err != nil {
			return p, err
		}
		p.writer, target.Continuous = w, w
	}
	if p.target, err = fabrics.OpenTarget(target); err != nil {
		return p, err
	}
	p.source, err = fabrics.OpenSource(fabrics.SourceConfig{
		Domain: origin, FlowID: id, Provider: fabrics.TCP, Address: "127.0.0.1", AudioPass: passInterval, AudioPipeline: pipeline,
	})
	if err != nil {
		return p, err
	}
	if err := p.source.SetTarget("mirror", p.target.Info()); err != nil {
		return p, err
	}
	return p, p.connected(10 * time.Second)
}

// connected waits until something has arrived.
func (p *pair) connected(limit time.Duration) error {
	for deadline := time.Now().Add(limit); p.target.Stats().Commits == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			return fmt.Errorf("nothing arrived within %v: source %+v, target %q", limit, p.source.Stats().Targets, p.target.Stats().LastError)
		}
	}
	return nil
}

func (p *pair) close() (err error) {
	if p.source != nil {
		err = p.source.Close()
	}
	if p.target != nil {
		err = errors.Join(err, p.target.Close())
	}
	if p.writer != nil {
		err = errors.Join(err, p.writer.Close())
	}
	return err
}

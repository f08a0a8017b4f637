package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// peerTest is the answer of POST /api/v1/peers/{id}/test (agent API reference
// §9.2). Members after ok are there as far as the test got.
type peerTest struct {
	HostID    string `json:"host_id"`
	OK        bool   `json:"ok"`
	ControlUp *bool  `json:"control_up,omitempty"`
	Provider  string `json:"provider,omitempty"`
	Fallback  *bool  `json:"fallback,omitempty"`
	Error     string `json:"error,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

// scratchCQDepth is the completion queue of the test's target (agent API
// reference §9.2).
const scratchCQDepth = 32

func (a *Agent) testPeer(w http.ResponseWriter, r *http.Request) {
	httpapi.WriteJSON(w, http.StatusOK, a.tryPeer(r.Context(), r.PathValue("id")))
}

// tryPeer asks the peer's control plane and opens a target on this end of the
// link to it, with a flow of its own in the temporary directory. Nothing of it
// stays.
func (a *Agent) tryPeer(ctx context.Context, host string) peerTest {
	out := peerTest{HostID: host}
	p, known := a.table.Peer(host)
	switch {
	case !known:
		out.Error = "unknown peer"
		return out
	case p.ControlURL == "":
		out.Error = "no control url"
		return out
	}
	began := time.Now()
	info, err := a.client.Info(ctx, p.ControlURL)
	up := err == nil
	out.ControlUp = &up
	if err != nil {
		out.Error = err.Error()
		out.Detail = "GET " + p.ControlURL + "/info"
		return out
	}
	answered := time.Since(began)
	route := routeTo(a.store.Config(), &p, a.links.Interfaces(), a.outgoing)
	out.Provider = string(route.Provider)
	if !route.LinkUp {
		out.Error = route.LinkReason
		out.Detail = "the fabric link on this host"
		return out
	}
	// Each test takes a target of its own; as many at once as replications set
	// theirs up.
	place := a.pullDeps.setups.ask(host)
	defer place.leave()
	select {
	case <-place.ready:
	case <-ctx.Done():
		out.Error = ctx.Err().Error()
		return out
	}
	provider, address, err := a.tryTarget(route)
	fallback := err == nil && provider != route.Provider
	out.Fallback = &fallback
	if err != nil {
		out.Error, out.Detail = err.Error(), "a target on "+route.Address
		return out
	}
	out.OK, out.Provider = true, string(provider)
	out.Detail = fmt.Sprintf("version %s answered in %v; a target on %s could be opened", info.Version, answered.Round(100*time.Microsecond), address)
	return out
}

// tryTarget opens a target over the route's provider, or tcp where that may
// stand in, and closes it.
func (a *Agent) tryTarget(route sourceRoute) (used fabrics.Provider, address string, err error) {
	scratch, err := newScratchFlow()
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, scratch.remove()) }()
	port, err := a.pullDeps.ports.take()
	if err != nil {
		return "", "", err
	}
	defer a.pullDeps.ports.give(port)
	try := func(p fabrics.Provider) (string, error) {
		target, err := fabrics.OpenTarget(fabrics.TargetConfig{
			Discrete: scratch.writer, FlowID: scratch.id, Provider: p, Address: route.Address, Port: port, CQDepth: scratchCQDepth, Log: a.log,
		})
		if err != nil {
			return "", err
		}
		at, err := target.Info().AddrPort()
		return at.String(), errors.Join(err, target.Close())
	}
	address, err = try(route.Provider)
	if err == nil || !route.Fallback || route.Provider == fabrics.TCP {
		return route.Provider, address, err
	}
	address, second := try(fabrics.TCP)
	if second != nil {
		return route.Provider, "", errors.Join(err, second)
	}
	return fabrics.TCP, address, nil
}

// scratchFlow is a flow in a domain in the temporary directory.
type scratchFlow struct {
	dir    string
	id     uuid.UUID
	writer *mxl.DiscreteWriter
}

// newScratchFlow makes a domain of 1 s with a 25/1 video/smpte291 flow and writes
// one grain to it.
func newScratchFlow() (s *scratchFlow, err error) {
	s = &scratchFlow{id: uuid.New()}
	if s.dir, err = os.MkdirTemp("", "mxl-fabrics-agent-test-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.remove())
		}
	}()
	for name, text := range map[string]string{
		"domain_def.json": fmt.Sprintf(`{"id":%q,"label":"peer test","description":"","tags":{}}`, uuid.NewString()),
		"options.json":    `{"urn:x-mxl:option:history_duration/v1.0":1000000000}`,
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	domain, err := mxl.OpenDomain(s.dir)
	if err != nil {
		return nil, err
	}
	def := fmt.Sprintf(`{"id":%q,"label":"peer test","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["test:Data"]},"parents":[],
		"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":25,"denominator":1}}`, s.id)
	if s.writer, _, err = domain.CreateDiscreteWriter([]byte(def), mxl.FlowOptions{}); err != nil {
		return nil, err
	}
	index := mxl.Rational{Numerator: 25, Denominator: 1}.IndexAt(mxl.Now())
	if _, err := s.writer.OpenGrain(index); err != nil {
		return nil, err
	}
	parsed, err := mxl.ParseFlowDef([]byte(def))
	if err != nil {
		return nil, err
	}
	return s, s.writer.Commit(index, parsed.TotalSlices(), 0)
}

func (s *scratchFlow) remove() error {
	var err error
	if s.writer != nil {
		_, err = s.writer.Release()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

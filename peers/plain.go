package peers

import (
	"encoding/json"
	"math"
	"strings"
)

// plainFlow and plainDomain are records in which every member has the type it
// ought to have.
type plainFlow struct {
	ID          string          `json:"flow_id"`
	Def         json.RawMessage `json:"flow_def"`
	DefText     string          `json:"flow_def_text"`
	Format      string          `json:"format"`
	MediaType   string          `json:"media_type"`
	Active      bool            `json:"active"`
	Live        bool            `json:"live"`
	GrainRate   plainRational   `json:"grain_rate"`
	SampleRate  *plainRational  `json:"sample_rate"`
	RingDepth   uint64          `json:"ring_depth"`
	PayloadSize uint64          `json:"payload_size"`
	HeadIndex   *uint64         `json:"head_index"`
}

type plainDomain struct {
	ID      string          `json:"domain_id"`
	Path    string          `json:"path"`
	Options json.RawMessage `json:"options"`
	Flows   []plainFlow     `json:"flows"`
}

type plainRational struct {
	Numerator   *uint64 `json:"numerator"`
	Denominator *uint64 `json:"denominator"`
}

func (p plainRational) value() (Rational, bool) {
	if p.Numerator == nil || p.Denominator == nil || *p.Numerator > math.MaxInt64 || *p.Denominator > math.MaxInt64 {
		return Rational{}, false
	}
	return Rational{Numerator: int64(*p.Numerator), Denominator: int64(*p.Denominator)}, true
}

// plainInventory reads an inventory in one go when nothing in it is amiss: that is
// every two seconds for every peer. Anything else is for ParseInventory, record by
// record.
func plainInventory(body []byte) (*Inventory, bool) {
	var raw struct {
		HostID   string        `json:"host_id"`
		Revision uint64        `json:"revision"`
		Domains  []plainDomain `json:"domains"`
	}
	if json.Unmarshal(body, &raw) != nil || raw.Domains == nil {
		return nil, false
	}
	inv := &Inventory{HostID: raw.HostID, Revision: raw.Revision, Domains: make([]Domain, 0, len(raw.Domains))}
	seen := make(map[string]bool, len(raw.Domains))
	for i := range raw.Domains {
		p := &raw.Domains[i]
		if !usableDomainID(p.ID) || seen[p.ID] || len(p.Options) == 0 || p.Options[0] != '{' || len(p.Options) > maxDefinition || p.Flows == nil {
			return nil, false
		}
		seen[p.ID] = true
		d := Domain{ID: p.ID, Path: p.Path, Options: p.Options, Flows: make([]Flow, 0, len(p.Flows))}
		flows := make(map[string]bool, len(p.Flows))
		for j := range p.Flows {
			f, ok := p.Flows[j].flow()
			id := strings.ToLower(f.ID)
			if !ok || flows[id] {
				return nil, false
			}
			flows[id] = true
			d.Flows = append(d.Flows, f)
		}
		inv.Domains = append(inv.Domains, d)
	}
	return inv, true
}

func (p *plainFlow) flow() (Flow, bool) {
	var def struct {
		ID string `json:"id"`
	}
	if !isUUID(p.ID) || len(p.Def) == 0 || len(p.Def) > maxDefinition || p.Def[0] != '{' || json.Unmarshal(p.Def, &def) != nil || def.ID != "" && !strings.EqualFold(def.ID, p.ID) {
		return Flow{}, false
	}
	f := Flow{
		ID: p.ID, Def: p.Def, Format: "discrete", MediaType: p.MediaType, Active: p.Active, Live: p.Live,
		RingDepth: p.RingDepth, PayloadSize: p.PayloadSize, HeadIndex: p.HeadIndex,
	}
	if p.DefText != "" && len(p.DefText) <= maxDefinition && sameDocument([]byte(p.DefText), p.Def) {
		f.DefText = p.DefText
	}
	if p.Format == "continuous" {
		f.Format = "continuous"
	}
	f.GrainRate, _ = p.GrainRate.value()
	if p.SampleRate != nil {
		if rate, ok := p.SampleRate.value(); ok {
			f.SampleRate = &rate
		}
	}
	return f, true
}

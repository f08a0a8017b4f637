package config

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
)

// Peer is one entry of PEERS: the link to another agent.
type Peer struct {
	HostID          string `json:"host_id"`
	ControlURL      string `json:"control_url,omitempty"`
	LocalFabricAddr string `json:"local_fabric_addr,omitempty"`
	// RemoteFabricAddr is for the reader of the configuration; the target's
	// own address arrives with its TargetInfo.
	RemoteFabricAddr string `json:"remote_fabric_addr,omitempty"`
	Provider         string `json:"provider,omitempty"` // "", "verbs" or "tcp"
}

// Peers is the JSON array of PEERS (agent API reference §12.3).
type Peers []Peer

// UnmarshalText implements encoding.TextUnmarshaler. An empty text is an
// empty array: that is what an unset variable in a Compose file gives.
func (p *Peers) UnmarshalText(text []byte) error {
	*p = nil
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var list []*Peer
	if err := dec.Decode(&list); err != nil {
		return fmt.Errorf("must be a JSON array of objects: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("has text after the JSON array")
	}
	if list == nil {
		return errors.New("must be a JSON array of objects, not null")
	}
	seen := make(map[string]bool)
	for i, peer := range list {
		if peer == nil {
			return fmt.Errorf("entry %d is not an object", i)
		}
		if err := peer.check(); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if seen[peer.HostID] {
			return fmt.Errorf("entry %d: host_id %q occurs twice", i, peer.HostID)
		}
		seen[peer.HostID] = true
		*p = append(*p, *peer)
	}
	return nil
}

func (p *Peer) check() error {
	if p.HostID == "" {
		return errors.New("host_id is missing or empty")
	}
	if err := oneOf("", "verbs", "tcp")(p.Provider); err != nil {
		return fmt.Errorf("provider %q %w", p.Provider, err)
	}
	if p.ControlURL != "" {
		u, err := url.Parse(p.ControlURL)
		if err != nil || u.Host == "" || u.Scheme != "http" {
			return fmt.Errorf("control_url %q is not an http URL", p.ControlURL)
		}
		p.ControlURL = strings.TrimRight(p.ControlURL, "/")
	}
	return nil
}

// checkText runs a type's own parser as a check.
func checkText[T any, P interface {
	*T
	encoding.TextUnmarshaler
}](value string) error {
	return P(new(T)).UnmarshalText([]byte(value))
}

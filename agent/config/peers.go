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
	// RemoteFabricAddr says who may connect to a target, and where a source connects
	// to; the target's own address arrives with its TargetInfo.
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
	if err := addressOrDevice(p.LocalFabricAddr); err != nil {
		return fmt.Errorf("local_fabric_addr %q %w", p.LocalFabricAddr, err)
	}
	if err := nameOrAddress(p.RemoteFabricAddr); err != nil {
		return fmt.Errorf("remote_fabric_addr %q %w", p.RemoteFabricAddr, err)
	}
	if p.ControlURL != "" {
		if err := controlURL(p.ControlURL); err != nil {
			return fmt.Errorf("control_url %q %w", p.ControlURL, err)
		}
		p.ControlURL = strings.TrimRight(p.ControlURL, "/")
	}
	return nil
}

// controlURL checks a URL that "/info" can be put behind.
func controlURL(text string) error {
	const form = "like http://node-b:8095/api/v1"
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" || u.Hostname() == "":
		return errors.New("is not an http URL " + form)
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return errors.New("must be host, port and path only, " + form)
	}
	if port := u.Port(); port != "" {
		if err := within(1, 65_535)(port); err != nil {
			return fmt.Errorf("has port %s, which %w", port, err)
		}
	}
	if err := nameOrAddress(u.Hostname()); err != nil {
		return fmt.Errorf("has host %q, which %w", u.Hostname(), err)
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

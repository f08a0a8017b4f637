package nmos

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// RFC 6762 §10: 120 s for records with a host name, 75 min for the others.
	hostTTL    = 120
	serviceTTL = 4500

	localDomain   = "local."
	allServices   = "_services._dns-sd._udp.local."
	legacyTTL     = 10 // RFC 6762 §6.7
	maxLabelBytes = 63
)

// advertisement is our _nmos-node._tcp service. Host and instance names carry
// the node id, so they are unique without probing (RFC 6762 §8.1 is about names
// that may collide).
type advertisement struct {
	service  dnsmessage.Name // _nmos-node._tcp.local.
	instance dnsmessage.Name
	host     dnsmessage.Name
	addr     netip.Addr
	port     uint16
}

func newAdvertisement(n *Node) (advertisement, error) {
	n.mu.Lock()
	cfg := n.cfg
	n.mu.Unlock()
	unique := strings.SplitN(n.id, "-", 2)[0]
	label := "mxl-fabrics-agent_" + strings.Map(func(r rune) rune {
		if r == '.' || r < ' ' || r > '~' {
			return '-' // a dot would end the label
		}
		return r
	}, cfg.HostID)
	label = label[:min(len(label), maxLabelBytes-1-len(unique))] + "_" + unique
	a := advertisement{addr: cfg.HostAddress.Unmap(), port: uint16(cfg.Port)}
	for _, x := range []struct {
		into *dnsmessage.Name
		name string
	}{
		{&a.service, peerService + "." + localDomain},
		{&a.instance, label + "." + peerService + "." + localDomain},
		{&a.host, "mxl-fabrics-agent-" + unique + "." + localDomain},
	} {
		var err error
		if *x.into, err = dnsmessage.NewName(x.name); err != nil {
			return advertisement{}, err
		}
	}
	return a, nil
}

// records are ours, with or without life: TTL 0 says goodbye (RFC 6762 §10.1).
func (a advertisement) records(goodbye bool) []dnsmessage.Resource {
	ttl := func(seconds uint32) uint32 {
		if goodbye {
			return 0
		}
		return seconds
	}
	unique := dnsmessage.ClassINET | flushBit
	list := []dnsmessage.Resource{
		{
			Header: dnsmessage.ResourceHeader{Name: a.service, Class: dnsmessage.ClassINET, TTL: ttl(serviceTTL)},
			Body:   &dnsmessage.PTRResource{PTR: a.instance},
		}, {
			Header: dnsmessage.ResourceHeader{Name: a.instance, Class: unique, TTL: ttl(hostTTL)},
			Body:   &dnsmessage.SRVResource{Port: a.port, Target: a.host},
		}, {
			Header: dnsmessage.ResourceHeader{Name: a.instance, Class: unique, TTL: ttl(serviceTTL)},
			Body: &dnsmessage.TXTResource{TXT: []string{
				"api_proto=http", "api_ver=v1.3", "api_auth=false",
				// Peer-to-peer change counters. Ours never move while this is
				// advertised: the node has no sub-resources and keeps its own data.
				"ver_slf=0", "ver_src=0", "ver_flw=0", "ver_dvc=0", "ver_snd=0", "ver_rcv=0",
			}},
		},
	}
	host := dnsmessage.ResourceHeader{Name: a.host, Class: unique, TTL: ttl(hostTTL)}
	if a.addr.Is4() {
		return append(list, dnsmessage.Resource{Header: host, Body: &dnsmessage.AResource{A: a.addr.As4()}})
	}
	return append(list, dnsmessage.Resource{Header: host, Body: &dnsmessage.AAAAResource{AAAA: a.addr.As16()}})
}

// announce is the unsolicited answer with all our records.
func (a advertisement) announce(goodbye bool) ([]byte, error) {
	m := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}, Answers: a.records(goodbye)}
	return m.Pack()
}

// answer gives the answer to a question message, nil when nothing in it is about
// us. A legacy resolver, which asks from another port than that of mDNS, wants
// its id and question back and short-lived records (RFC 6762 §6.7).
func (a advertisement) answer(q answerMessage, legacy bool) []byte {
	if q.header.Response {
		return nil
	}
	ours := a.records(false)
	var answers []dnsmessage.Resource
	for _, question := range q.questions {
		if c := question.Class &^ flushBit; c != dnsmessage.ClassINET && c != dnsmessage.ClassANY {
			continue
		}
		name := strings.ToLower(question.Name.String())
		if name == allServices && (question.Type == dnsmessage.TypePTR || question.Type == dnsmessage.TypeALL) {
			answers = append(answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: serviceTTL},
				Body:   &dnsmessage.PTRResource{PTR: a.service},
			})
		}
		for _, r := range ours {
			if name == strings.ToLower(r.Header.Name.String()) && (question.Type == dnsmessage.TypeALL || question.Type == bodyType(r.Body)) {
				answers = append(answers, r)
			}
		}
	}
	if len(answers) == 0 {
		return nil
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{Response: true, Authoritative: true}, Answers: answers, Additionals: ours}
	if legacy {
		m.ID, m.Questions = q.header.ID, q.questions
		for _, list := range [][]dnsmessage.Resource{m.Answers, m.Additionals} {
			for i := range list {
				list[i].Header.TTL = legacyTTL
				list[i].Header.Class &^= flushBit
			}
		}
	}
	packet, err := m.Pack()
	if err != nil {
		return nil // a foreign question that cannot be repeated
	}
	showDots(packet) // of a legacy resolver's questions
	return packet
}

func bodyType(b dnsmessage.ResourceBody) dnsmessage.Type {
	switch b.(type) {
	case *dnsmessage.PTRResource:
		return dnsmessage.TypePTR
	case *dnsmessage.SRVResource:
		return dnsmessage.TypeSRV
	case *dnsmessage.TXTResource:
		return dnsmessage.TypeTXT
	case *dnsmessage.AResource:
		return dnsmessage.TypeA
	case *dnsmessage.AAAAResource:
		return dnsmessage.TypeAAAA
	}
	return 0
}

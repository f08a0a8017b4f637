package nmos

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// recordsKept bounds what foreign answers can put into the cache.
	recordsKept = 2048
	// recordLife bounds a TTL: 75 min is what mDNS uses for service records
	// (RFC 6762 §10).
	recordLife = 75 * time.Minute
)

// record is one DNS record of the types that service discovery uses.
type record struct {
	name   string // lower case, with the final dot
	kind   dnsmessage.Type
	ttl    time.Duration
	flush  bool   // mDNS cache-flush bit: replaces what was known of name and type
	target string // PTR, SRV
	port   uint16 // SRV
	text   []string
	addr   netip.Addr
}

// answerMessage is a parsed DNS message: all its records of all sections, to be
// joined only after the whole packet was read (NMOS reference §5).
type answerMessage struct {
	header    dnsmessage.Header
	questions []dnsmessage.Question
	records   []record
}

// parseDNS reads a message. Records of unknown types, and records that cannot be
// read on their own, are passed over. Dots inside labels are hidden in the packet.
func parseDNS(packet []byte) (answerMessage, error) {
	hideDots(packet)
	var (
		m answerMessage
		p dnsmessage.Parser
	)
	var err error
	if m.header, err = p.Start(packet); err != nil {
		return m, fmt.Errorf("dns message: %w", err)
	}
	if m.questions, err = p.AllQuestions(); err != nil {
		return m, fmt.Errorf("dns message: %w", err)
	}
	for _, section := range []struct {
		header func() (dnsmessage.ResourceHeader, error)
		skip   func() error
	}{{p.AnswerHeader, p.SkipAnswer}, {p.AuthorityHeader, p.SkipAuthority}, {p.AdditionalHeader, p.SkipAdditional}} {
		for {
			h, err := section.header()
			if errors.Is(err, dnsmessage.ErrSectionDone) {
				break
			}
			if err == nil {
				if r, ok := readRecord(&p, h); ok {
					m.records = append(m.records, r)
					continue
				}
			}
			if err := section.skip(); err != nil {
				return m, fmt.Errorf("dns message: %w", err)
			}
		}
	}
	return m, nil
}

// readRecord reads the body after a header; false leaves the body to be skipped.
func readRecord(p *dnsmessage.Parser, h dnsmessage.ResourceHeader) (record, bool) {
	r := record{
		name: strings.ToLower(h.Name.String()), kind: h.Type,
		ttl: min(time.Duration(h.TTL)*time.Second, recordLife), flush: h.Class&flushBit != 0,
	}
	if h.Class&^flushBit != dnsmessage.ClassINET {
		return r, false
	}
	var err error
	switch h.Type {
	case dnsmessage.TypePTR:
		var b dnsmessage.PTRResource
		b, err = p.PTRResource()
		r.target = strings.ToLower(b.PTR.String())
	case dnsmessage.TypeSRV:
		var b dnsmessage.SRVResource
		b, err = p.SRVResource()
		r.target, r.port = strings.ToLower(b.Target.String()), b.Port
	case dnsmessage.TypeTXT:
		var b dnsmessage.TXTResource
		b, err = p.TXTResource()
		r.text = b.TXT
	case dnsmessage.TypeA:
		var b dnsmessage.AResource
		b, err = p.AResource()
		r.addr = netip.AddrFrom4(b.A)
	case dnsmessage.TypeAAAA:
		var b dnsmessage.AAAAResource
		b, err = p.AAAAResource()
		r.addr = netip.AddrFrom16(b.AAAA)
	default:
		return r, false
	}
	return r, err == nil
}

// flushBit is the top bit of the class in mDNS answers (RFC 6762 §10.2) and the
// wish for a unicast answer in questions (§5.4).
const flushBit dnsmessage.Class = 0x8000

// recordCache joins records to service instances. It has one owner.
type recordCache struct {
	records map[recordKey]map[string]kept
	size    int
}

type recordKey struct {
	name string
	kind dnsmessage.Type
}

type kept struct {
	record
	until time.Time
}

func newRecordCache() *recordCache { return &recordCache{records: map[recordKey]map[string]kept{}} }

func (c *recordCache) add(records []record, now time.Time) {
	for _, r := range records {
		key := recordKey{r.name, r.kind}
		if r.flush {
			for value, k := range c.records[key] { // of this moment are those of one packet
				if now.Sub(k.until.Add(-k.ttl)) > time.Second {
					c.drop(key, value)
				}
			}
		}
		value := r.target + "|" + r.addr.String()
		if r.kind == dnsmessage.TypeSRV || r.kind == dnsmessage.TypeTXT {
			value = "" // one of each
		}
		if r.ttl == 0 { // goodbye (RFC 6762 §10.1)
			c.drop(key, value)
			continue
		}
		if _, known := c.records[key][value]; !known {
			if c.size >= recordsKept {
				continue // what has run out goes when instances are listed
			}
			c.size++
		}
		if c.records[key] == nil {
			c.records[key] = map[string]kept{}
		}
		c.records[key][value] = kept{r, now.Add(r.ttl)}
	}
}

func (c *recordCache) drop(key recordKey, value string) {
	if _, ok := c.records[key][value]; ok {
		c.size--
		if delete(c.records[key], value); len(c.records[key]) == 0 {
			delete(c.records, key)
		}
	}
}

func (c *recordCache) forget(now time.Time) {
	for key, values := range c.records {
		for value, k := range values {
			if !now.Before(k.until) {
				c.drop(key, value)
			}
		}
	}
}

// instance is one advertised service.
type instance struct {
	name  string
	host  string // SRV target, empty: not known yet
	port  uint16
	addrs []netip.Addr
	text  map[string]string // nil: not known yet
}

// instances joins what is known of a service type ("_nmos-query._tcp.local.").
func (c *recordCache) instances(service string, now time.Time) []instance {
	c.forget(now)
	var list []instance
	for _, ptr := range c.records[recordKey{strings.ToLower(service), dnsmessage.TypePTR}] {
		i := instance{name: ptr.target}
		if srv, ok := c.records[recordKey{i.name, dnsmessage.TypeSRV}][""]; ok {
			i.host, i.port = srv.target, srv.port
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
				for _, a := range c.records[recordKey{i.host, kind}] {
					if !a.addr.Is6() || !a.addr.IsLinkLocalUnicast() { // useless without its zone
						i.addrs = append(i.addrs, a.addr)
					}
				}
			}
			slices.SortFunc(i.addrs, netip.Addr.Compare) // IPv4 first
		}
		if txt, ok := c.records[recordKey{i.name, dnsmessage.TypeTXT}][""]; ok {
			i.text = parseText(txt.text)
		}
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b instance) int { return cmp.Compare(a.name, b.name) })
	return list
}

// parseText splits key=value strings; keys are case-insensitive and the first
// one counts (RFC 6763 §6.4). Odd case and blanks occur (NMOS reference §5).
func parseText(list []string) map[string]string {
	text := map[string]string{}
	for _, s := range list {
		key, value, _ := strings.Cut(s, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if _, known := text[key]; key != "" && !known {
			text[key] = strings.TrimSpace(value)
		}
	}
	return text
}

package nmos

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// dnsTimeout bounds one question to one server.
	dnsTimeout = 2 * time.Second
	// instancesAsked bounds how many instances of one PTR answer are followed.
	instancesAsked = 64
)

// resolverConfig is what unicast discovery takes from resolv.conf.
type resolverConfig struct {
	servers []string // host:port
	domains []string // with a final dot
}

func readResolverConfig(path string) resolverConfig {
	b, err := os.ReadFile(path)
	if err != nil {
		return resolverConfig{} // no unicast DNS here; multicast remains
	}
	return parseResolverConfig(string(b))
}

func parseResolverConfig(text string) resolverConfig {
	const most = 8
	var c resolverConfig
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if len(c.servers) < most {
				c.servers = append(c.servers, net.JoinHostPort(f[1], "53"))
			}
		case "search", "domain": // the last one counts (resolv.conf(5))
			c.domains = nil
			for _, d := range f[1:min(len(f), most+1)] {
				if d = strings.Trim(d, "."); d != "" {
					c.domains = append(c.domains, d+".")
				}
			}
		}
	}
	return c
}

// browseUnicast asks the search domains for a service and gives all records that
// came up: PTR, then SRV and TXT of each instance, then addresses of the targets.
func browseUnicast(ctx context.Context, c resolverConfig, service string) []record {
	var all []record
	for _, domain := range c.domains {
		answers, err := askServers(ctx, c.servers, service+"."+domain, dnsmessage.TypePTR)
		if err != nil {
			continue
		}
		all = append(all, answers...)
		asked := 0
		for _, ptr := range answers {
			if ptr.kind != dnsmessage.TypePTR || asked >= instancesAsked {
				continue
			}
			asked++
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeSRV, dnsmessage.TypeTXT} {
				if !has(all, ptr.target, kind) {
					more, _ := askServers(ctx, c.servers, ptr.target, kind) // what is missing makes the instance unusable
					all = append(all, more...)
				}
			}
		}
	}
	for _, srv := range all {
		if srv.kind == dnsmessage.TypeSRV && !has(all, srv.target, dnsmessage.TypeA) && !has(all, srv.target, dnsmessage.TypeAAAA) {
			for _, kind := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
				more, _ := askServers(ctx, c.servers, srv.target, kind) // without an address the name is used
				all = append(all, more...)
			}
		}
	}
	return all
}

func has(list []record, name string, kind dnsmessage.Type) bool {
	for _, r := range list {
		if r.kind == kind && r.name == name {
			return true
		}
	}
	return false
}

// askServers asks one server after the other until one answers, also in the
// negative.
func askServers(ctx context.Context, servers []string, name string, kind dnsmessage.Type) ([]record, error) {
	err := errors.New("no dns server is configured")
	for _, server := range servers {
		var m answerMessage
		if m, err = askServer(ctx, server, name, kind); err == nil {
			return m.records, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("dns %s %s: %w", name, kind, err)
}

func askServer(ctx context.Context, server, name string, kind dnsmessage.Type) (answerMessage, error) {
	n, err := dnsmessage.NewName(name)
	if err != nil {
		return answerMessage{}, fmt.Errorf("name %q: %w", clip(name), err)
	}
	question := dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET}
	query := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: uint16(rand.Uint32()), RecursionDesired: true},
		Questions: []dnsmessage.Question{question},
	}
	packet, err := query.Pack()
	if err != nil {
		return answerMessage{}, fmt.Errorf("name %q: %w", clip(name), err)
	}
	showDots(packet)
	for _, network := range [...]string{"udp", "tcp"} {
		m, err := exchangeDNS(ctx, network, server, packet, query.ID, question)
		if err != nil {
			return answerMessage{}, err
		}
		if m.header.Truncated && network == "udp" {
			continue
		}
		if m.header.RCode != dnsmessage.RCodeSuccess && m.header.RCode != dnsmessage.RCodeNameError {
			return answerMessage{}, fmt.Errorf("server %s: %s", server, m.header.RCode)
		}
		return m, nil
	}
	return answerMessage{}, fmt.Errorf("server %s: answer is truncated over tcp", server)
}

// exchangeDNS sends a question and waits for the answer to it.
func exchangeDNS(ctx context.Context, network, server string, packet []byte, id uint16, question dnsmessage.Question) (answerMessage, error) {
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, server)
	if err != nil {
		return answerMessage{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })()
	if network == "tcp" {
		packet = append(binary.BigEndian.AppendUint16(nil, uint16(len(packet))), packet...)
	}
	if _, err := conn.Write(packet); err != nil {
		return answerMessage{}, err
	}
	buf := make([]byte, 64<<10)
	for ctx.Err() == nil {
		n := 0
		if network == "tcp" {
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return answerMessage{}, err
			}
			n = int(binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(conn, buf[:n]); err != nil {
				return answerMessage{}, err
			}
		} else if n, err = conn.Read(buf); err != nil {
			return answerMessage{}, err
		}
		m, err := parseDNS(buf[:n])
		if err != nil || m.header.ID != id || !m.header.Response || len(m.questions) != 1 ||
			m.questions[0].Type != question.Type || !strings.EqualFold(m.questions[0].Name.String(), question.Name.String()) {
			if network == "tcp" {
				return answerMessage{}, fmt.Errorf("server %s: not an answer to the question", server)
			}
			continue // somebody else's packet
		}
		return m, nil
	}
	return answerMessage{}, ctx.Err()
}

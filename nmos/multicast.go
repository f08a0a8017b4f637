package nmos

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// runMulticast asks and listens for services, and answers for our node.
func (b *Browser) runMulticast(ctx context.Context) error {
	socket, err := openMulticast(ctx, b.cfg.Group, b.cfg.Interfaces)
	if err != nil {
		return err
	}
	packets := make(chan multicastPacket, 16)
	var reader sync.WaitGroup
	reader.Go(func() { readMulticast(socket, packets) })
	defer reader.Wait()
	defer socket.close()

	m := &multicastRun{b: b, socket: socket, cache: newRecordCache(), every: multicastFirst, aloneSince: b.now(), asked: map[string]time.Time{}}
	defer m.withdraw()
	tick := time.NewTimer(jitter(200 * time.Millisecond)) // many hosts start at once
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			go func() { // the reader may wait to hand over
				for range packets {
				}
			}()
			return nil
		case p, ok := <-packets:
			if !ok {
				return net.ErrClosed
			}
			m.receive(p)
		case <-tick.C:
			m.ask()
			m.advertise()
			tick.Reset(time.Second)
		}
	}
}

type multicastPacket struct {
	message answerMessage
	from    *net.UDPAddr
}

// readMulticast reads until the socket closes; what is no DNS message is dropped.
func readMulticast(s *multicastSocket, out chan<- multicastPacket) {
	defer close(out)
	buf := make([]byte, 64<<10)
	for {
		n, _, from, err := s.conn.ReadFrom(buf)
		if err != nil {
			return
		}
		m, err := parseDNS(buf[:n])
		addr, ok := from.(*net.UDPAddr)
		if err != nil || !ok {
			continue
		}
		out <- multicastPacket{m, addr}
	}
}

// multicastRun is the state of one run of multicast DNS-SD.
type multicastRun struct {
	b      *Browser
	socket *multicastSocket
	cache  *recordCache
	every  time.Duration
	next   time.Time            // of the next question for services
	asked  map[string]time.Time // when the missing parts of an instance were asked for

	aloneSince time.Time // since when no registry holds our node
	ours       *advertisement
	announced  int // of two announcements (RFC 6762 §8.3)
}

func (m *multicastRun) receive(p multicastPacket) {
	if !p.message.header.Response {
		if m.ours != nil {
			legacy := p.from.Port != m.socket.group.Port
			if packet := m.ours.answer(p.message, legacy); packet != nil {
				if legacy {
					_ = m.socket.reply(packet, p.from) // the asker asks again
				} else {
					_ = m.socket.send(packet)
				}
			}
		}
		return
	}
	m.cache.add(p.message.records, m.b.now())
	m.store()
}

func (m *multicastRun) store() {
	for i, service := range services {
		if !m.b.configured(i) {
			m.b.store(&m.b.multicast[i], service, m.cache.instances(service+"."+localDomain, m.b.now()))
		}
	}
}

// ask sends the questions that are due: for services, and at most once a second
// for what is missing of an instance.
func (m *multicastRun) ask() {
	now := m.b.now()
	m.store() // records have run out meanwhile
	var questions []dnsmessage.Question
	add := func(name string, kind dnsmessage.Type) {
		if n, err := dnsmessage.NewName(name); err == nil && len(questions) < 32 {
			questions = append(questions, dnsmessage.Question{Name: n, Type: kind, Class: dnsmessage.ClassINET})
		}
	}
	wanted := m.b.wanted()
	if len(wanted) > 0 && !now.Before(m.next) {
		for _, i := range wanted {
			add(services[i]+"."+localDomain, dnsmessage.TypePTR)
		}
		m.next = now.Add(m.every)
		m.every = min(m.every*2, multicastMost)
	}
	for name, at := range m.asked {
		if now.Sub(at) >= time.Minute {
			delete(m.asked, name)
		}
	}
	for _, i := range wanted {
		for _, inst := range m.cache.instances(services[i]+"."+localDomain, now) {
			if at, ok := m.asked[inst.name]; (ok && now.Sub(at) < multicastFirst) || len(m.asked) > recordsKept {
				continue
			}
			switch {
			case inst.host == "" || inst.text == nil:
				add(inst.name, dnsmessage.TypeALL)
			case len(inst.addrs) == 0:
				add(inst.host, dnsmessage.TypeA)
				add(inst.host, dnsmessage.TypeAAAA)
			default:
				continue
			}
			m.asked[inst.name] = now
		}
	}
	if len(questions) == 0 {
		return
	}
	q := dnsmessage.Message{Questions: questions}
	if packet, err := q.Pack(); err == nil {
		showDots(packet)
		_ = m.socket.send(packet) // no link now: asked again
	}
}

// advertise announces our node while no registry holds it, and withdraws it as
// soon as one does (NMOS reference §5).
func (m *multicastRun) advertise() {
	cfg := m.b.cfg
	if cfg.Node == nil {
		return
	}
	now := m.b.now()
	if cfg.Registered != nil && cfg.Registered() {
		m.aloneSince = now
		m.withdraw()
		return
	}
	if now.Sub(m.aloneSince) < aloneFor {
		return
	}
	if m.ours == nil {
		a, err := newAdvertisement(cfg.Node)
		if err != nil {
			return // names are built from ids: cannot be
		}
		m.ours, m.announced = &a, 0
		cfg.Log.Info("nmos_node_advertised", "instance", a.instance.String())
	}
	if m.announced < 2 {
		m.announced++
		if packet, err := m.ours.announce(false); err == nil {
			_ = m.socket.send(packet)
		}
	}
}

func (m *multicastRun) withdraw() {
	if m.ours == nil {
		return
	}
	if packet, err := m.ours.announce(true); err == nil {
		_ = m.socket.send(packet)
	}
	m.ours = nil
	m.b.cfg.Log.Info("nmos_node_withdrawn")
}

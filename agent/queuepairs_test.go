package agent

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics/rdmacm"
)

// queuePairLog collects the lines and counts of one reporter.
type queuePairLog struct {
	queuePairs
	out    bytes.Buffer
	counts []string
}

func newQueuePairLog() *queuePairLog {
	q := &queuePairLog{}
	q.log = slog.New(logging.NewHandler(&q.out, slog.LevelInfo))
	q.count = func(role, ack, retry string) { q.counts = append(q.counts, role+" "+ack+" "+retry) }
	return q
}

func (q *queuePairLog) lines(t *testing.T) (list []map[string]string) {
	t.Helper()
	for line := range strings.Lines(q.out.String()) {
		m := map[string]string{}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, m)
	}
	q.out.Reset()
	return list
}

func TestQueuePairReport(t *testing.T) {
	cfg := &config.Config{FabricACKTimeout: 14, FabricRetryCount: 7}
	base := rdmacm.QueuePair{
		Role: rdmacm.Source, Local: netip.MustParseAddrPort("192.0.2.1:40000"), Remote: netip.MustParseAddrPort("192.0.2.2:50000"),
		Device: "mlx5_0", Number: 77, Wanted: rdmacm.Settings{ACKTimeout: 14, RetryCount: 7}, ACKTimeout: 14, RetryCount: 7, RNRRetry: 7,
	}
	flow := uuid.New()
	for name, c := range map[string]struct {
		change func(*rdmacm.QueuePair)
		count  string
		level  string
		want   map[string]string
	}{
		"as set": {func(*rdmacm.QueuePair) {}, "source 14 7", "info", map[string]string{
			"role": "source", "flow_id": flow.String(), "peer": "b", "local": "192.0.2.1:40000", "remote": "192.0.2.2:50000",
			"device": "mlx5_0", "qp_num": "77", "ack_timeout": "14", "ack_timeout_ms": "67", "retry_count": "7", "rnr_retry": "7",
			"requested_ack_timeout": "14", "requested_retry_count": "7", "checked": "true", "applied": "true",
		}},
		"differs": {func(q *rdmacm.QueuePair) { q.ACKTimeout = 17 }, "source 17 7", "warn", map[string]string{
			"ack_timeout": "17", "ack_timeout_ms": "537", "checked": "true", "applied": "false",
		}},
		"unreported": {func(q *rdmacm.QueuePair) { q.ACKTimeout = 0 }, "source unreported 7", "info", map[string]string{
			"ack_timeout": "unreported", "checked": "false", "applied": "false",
		}},
		"refused": {func(q *rdmacm.QueuePair) { q.OptionError = syscall.ENOSYS }, "source 14 7", "warn", map[string]string{
			"option_error": "function not implemented", "applied": "false",
		}},
		"query failed": {func(q *rdmacm.QueuePair) { q.QueryError, q.ACKTimeout, q.RetryCount = syscall.EINVAL, 0, 0 }, "source unknown unknown", "info", map[string]string{
			"ack_timeout": "unknown", "retry_count": "unknown", "query_error": "invalid argument", "checked": "false", "applied": "false",
		}},
		"destination of a source with another retry count": {func(q *rdmacm.QueuePair) {
			q.Role, q.Wanted.RetryCount, q.RetryCount = rdmacm.Destination, 0, 3
		}, "destination 14 3", "info", map[string]string{"role": "destination", "retry_count": "3", "applied": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueuePairLog()
			pair := base
			c.change(&pair)
			q.report([]rdmacm.QueuePair{pair}, cfg, func(rdmacm.QueuePair) (queuePairOwner, bool) {
				return queuePairOwner{Flow: flow, Peer: "b"}, true
			})
			lines := q.lines(t)
			if len(lines) != 1 || lines[0]["event"] != "fabric_qp" || lines[0]["level"] != c.level {
				t.Fatalf("%v", lines)
			}
			for key, want := range c.want {
				if got := lines[0][key]; got != want {
					t.Errorf("%s: %q, want %q", key, got, want)
				}
			}
			if !slices.Equal(q.counts, []string{c.count}) {
				t.Errorf("counted as %q, want %q", q.counts, c.count)
			}
		})
	}
}

// TestQueuePairWaitsForItsOwner: a connection may be made before its target's
// address is known here; it is counted at once, logged when the flow is known, and
// logged without it in the end.
func TestQueuePairWaitsForItsOwner(t *testing.T) {
	cfg := &config.Config{FabricACKTimeout: 14, FabricRetryCount: 7}
	q := newQueuePairLog()
	flow, calls := uuid.New(), 0
	owner := func(p rdmacm.QueuePair) (queuePairOwner, bool) {
		if calls++; p.Number == 1 && calls > 4 {
			return queuePairOwner{Flow: flow, Peer: "b"}, true
		}
		return queuePairOwner{}, false
	}
	q.report([]rdmacm.QueuePair{{Role: rdmacm.Source, Number: 1}, {Role: rdmacm.Source, Number: 2}}, cfg, owner)
	if len(q.counts) != 2 || q.out.Len() != 0 {
		t.Fatalf("%v, %s", q.counts, q.out.String())
	}
	for range 2 * ownerTries {
		q.report(nil, cfg, owner)
	}
	lines := q.lines(t)
	if len(lines) != 2 || lines[0]["flow_id"] != flow.String() || lines[1]["flow_id"] != "" || lines[1]["qp_num"] != "2" || len(q.waiting) != 0 || len(q.counts) != 2 {
		t.Errorf("%v; %d waiting", lines, len(q.waiting))
	}
}

func TestQueuePairSettings(t *testing.T) {
	for hooked, level := range map[bool]string{true: "info", false: "warn"} {
		q := newQueuePairLog()
		setQueuePairs(&config.Config{FabricACKTimeout: 14, FabricRetryCount: 7}, q.log, hooked)
		lines := q.lines(t)
		if len(lines) != 1 || lines[0]["event"] != "fabric_qp_settings" || lines[0]["level"] != level ||
			lines[0]["ack_timeout_ms"] != "67" || lines[0]["rdma_cm_hooks"] != map[bool]string{true: "true", false: "false"}[hooked] {
			t.Errorf("%v", lines)
		}
	}
	rdmacm.Configure(rdmacm.Settings{})
}

// verbsTarget is a target at 192.0.2.10, port 4791 (MXL Fabrics reference §2).
const verbsTarget = `{"addressFormat":2,"fabricAddress":"AgASt8AAAgoAAAAAAAAAAA==","id":"1","provider":"verbs",
 "regions":[{"addr":"0","len":"5537792","rkey":"7"}]}`

func TestSendingTo(t *testing.T) {
	flow := uuid.New()
	s := newSources(slog.New(slog.DiscardHandler), nil, nil, nil)
	info, err := fabrics.ParseTargetInfo(verbsTarget)
	if err != nil {
		t.Fatal(err)
	}
	target, err := info.AddrPort()
	if err != nil {
		t.Fatal(err)
	}
	add := func(dest string, provider fabrics.Provider) {
		key := rowKey{Flow: flow, Dest: dest}
		s.rows[key] = &sourceRow{key: key, group: &sourceGroup{key: groupKey{Flow: flow, Provider: provider}}, target: target}
	}
	at := netip.MustParseAddrPort("192.0.2.10:4791")
	add("c", fabrics.TCP)
	if o, ok := s.sendingTo(at); ok {
		t.Errorf("a tcp row has a queue pair: %+v", o)
	}
	add("b", fabrics.Verbs)
	if o, ok := s.sendingTo(at); !ok || o.Flow != flow || o.Peer != "b" {
		t.Errorf("%+v %v", o, ok)
	}
	for _, other := range []string{"192.0.2.10:4792", "192.0.2.11:4791", "[fd00::2]:4791"} {
		if o, ok := s.sendingTo(netip.MustParseAddrPort(other)); ok {
			t.Errorf("%s: %+v", other, o)
		}
	}
}

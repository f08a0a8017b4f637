package agent

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/logging"
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// fakeLane is a source lane that keeps its targets and moves nothing.
type fakeLane struct {
	mu      sync.Mutex
	targets map[string]uint64 // key: TargetInfo id
	sets    int
	closed  bool
	state   fabrics.State
	lane    fabrics.State // of the whole lane; active when not set
	head    uint64
	refuse  error
	during  func() // of SetTarget
	read    func() // at every Stats
	events  chan fabrics.SourceEvent
}

func (l *fakeLane) SetTarget(key string, info fabrics.TargetInfo) error {
	if l.during != nil {
		l.during()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.refuse != nil {
		return l.refuse
	}
	if l.targets[key] != info.ID {
		l.sets++
	}
	l.targets[key] = info.ID
	return nil
}
func (l *fakeLane) RemoveTarget(key string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.targets, key)
}
func (l *fakeLane) Events() <-chan fabrics.SourceEvent { return l.events }
func (l *fakeLane) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	return nil
}
func (l *fakeLane) Stats() fabrics.SourceStats {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.read != nil {
		l.read()
	}
	st := fabrics.SourceStats{State: fabrics.StateActive, Reading: true, Head: l.head, OriginGaps: 3}
	if l.lane == fabrics.StateError {
		st.State = l.lane
	}
	for key := range l.targets {
		st.Targets = append(st.Targets, fabrics.TargetStatus{Key: key, State: l.state, Grains: 7, Bytes: 70, LastError: "why not"})
	}
	return st
}

type sourceBench struct {
	*sources
	now    time.Time
	opened []*fakeLane
	fail   error
	next   func(*fakeLane) // changes every lane that is opened from now on
	ended  int
}

func newSourceBench() *sourceBench {
	b := &sourceBench{now: t0}
	b.sources = newSources(slog.New(slog.DiscardHandler), func() time.Time { return b.now },
		func(groupKey, string, bool, fabrics.SourceStats) { b.ended++ },
		func(string, uuid.UUID, fabrics.Provider, string) (sourceLane, error) {
			if b.fail != nil {
				return nil, b.fail
			}
			l := &fakeLane{targets: map[string]uint64{}, head: 4711}
			if b.next != nil {
				b.next(l)
			}
			b.opened = append(b.opened, l)
			return l, nil
		})
	return b
}

var testFlow = uuid.MustParse("0d9f6c3a-2b71-4f5e-8a64-1c2d3e4f5a01")

func request(dest string, info string) peers.ReplicationRequest {
	return peers.ReplicationRequest{DomainID: "dom", FlowID: testFlow.String(), DestHostID: dest, TargetInfo: info, DestBootID: "boot-1"}
}

func overTCP(address string) sourceRoute {
	return sourceRoute{Provider: fabrics.TCP, Address: address, LinkUp: true}
}

func (b *sourceBench) mustAsk(t *testing.T, dest string, id uint64, route sourceRoute) peers.ReplicationAnswer {
	t.Helper()
	a, err := b.ask(request(dest, "info"), "/dom", fabrics.TargetInfo{ID: id, Provider: "tcp"}, route)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestAskIsIdempotent(t *testing.T) {
	b := newSourceBench()
	first := b.mustAsk(t, "b", 1, overTCP("192.0.2.1"))
	if first.State != statePending || first.OriginHead == nil || *first.OriginHead != 4711 {
		t.Errorf("first answer %+v", first)
	}
	if again := b.mustAsk(t, "b", 1, overTCP("192.0.2.1")); again.ReplicationID != first.ReplicationID {
		t.Errorf("the same question got another id: %s and %s", again.ReplicationID, first.ReplicationID)
	}
	if len(b.opened) != 1 || b.opened[0].sets != 1 {
		t.Errorf("%d lanes, %d targets set; want one of each", len(b.opened), b.opened[0].sets)
	}
	// Another target_info replaces the target in place under the same id.
	if other := b.mustAsk(t, "b", 2, overTCP("192.0.2.1")); other.ReplicationID != first.ReplicationID {
		t.Error("a new target_info got another id")
	}
	if b.opened[0].sets != 2 || b.opened[0].targets["b"] != 2 {
		t.Error("the target was not replaced")
	}
	// A second destination over the same address joins lane and id.
	if joined := b.mustAsk(t, "c", 3, overTCP("192.0.2.1")); joined.ReplicationID != first.ReplicationID || len(b.opened) != 1 {
		t.Error("a second destination did not join the replication")
	}
	// Over another address it is another reader and another id.
	if apart := b.mustAsk(t, "d", 4, overTCP("198.51.100.1")); apart.ReplicationID == first.ReplicationID || len(b.opened) != 2 {
		t.Error("another local address shares the lane")
	}
	// A known destination that moves to another address keeps its id.
	if moved := b.mustAsk(t, "b", 2, overTCP("198.51.100.1")); moved.ReplicationID != first.ReplicationID {
		t.Error("another local address gave the row another id")
	}
	if _, still := b.opened[0].targets["b"]; still {
		t.Error("the old lane still sends to b")
	}
}

func TestAskOverADeadLinkSetsNothingUp(t *testing.T) {
	b := newSourceBench()
	a := b.mustAsk(t, "b", 1, sourceRoute{Provider: fabrics.TCP, Address: "192.0.2.1", LinkReason: "no carrier on x (down)"})
	if a.State != stateLinkDown || a.Error != "no carrier on x (down)" || len(b.opened) != 0 {
		t.Errorf("answer %+v, %d lanes", a, len(b.opened))
	}
	if a = b.mustAsk(t, "b", 1, overTCP("192.0.2.1")); a.State != statePending || len(b.opened) != 1 {
		t.Errorf("after the link came back: %+v, %d lanes", a, len(b.opened))
	}
}

func TestFailedAskStaysInTheTableWithItsReason(t *testing.T) {
	b := newSourceBench()
	b.fail = errors.New("origin flow not found")
	a, err := b.ask(request("b", "info"), "/dom", fabrics.TargetInfo{ID: 1}, overTCP("192.0.2.1"))
	if err == nil || a.State != stateError || a.Error != "origin flow not found" {
		t.Errorf("answer %+v, error %v", a, err)
	}
	rows := b.list()
	if len(rows) != 1 || rows[0].State != stateError || rows[0].Errors != 1 {
		t.Errorf("rows %+v", rows)
	}
	b.fail = nil
	if a := b.mustAsk(t, "b", 1, overTCP("192.0.2.1")); a.State != statePending {
		t.Errorf("after the flow appeared: %+v", a)
	}
}

func TestReleaseEndsTheLaneWithItsLastTarget(t *testing.T) {
	b := newSourceBench()
	id := b.mustAsk(t, "b", 1, overTCP("192.0.2.1")).ReplicationID
	b.mustAsk(t, "c", 2, overTCP("192.0.2.1"))
	if b.release(id, "nobody") || b.release("no-id", "b") {
		t.Error("released what is not there")
	}
	if !b.release(id, "b") || b.opened[0].closed {
		t.Error("the lane must go on for c")
	}
	if !b.release(id, "c") || !b.opened[0].closed || b.ended != 1 {
		t.Error("the last release did not end the lane")
	}
	if len(b.list()) != 0 {
		t.Error("released rows are still listed")
	}
}

func TestSweep(t *testing.T) {
	b := newSourceBench()
	b.mustAsk(t, "b", 1, overTCP("192.0.2.1"))
	heard := func(boot string, after time.Duration) map[string]peerBoot {
		return map[string]peerBoot{"b": {ID: boot, HeardAt: b.now.Add(after)}}
	}
	b.sweep(sourceFacts{Boots: heard("boot-1", time.Second), Link: map[string]sourceRoute{"b": overTCP("192.0.2.1")}})
	if len(b.list()) != 1 {
		t.Fatal("a row of the present boot went")
	}
	b.sweep(sourceFacts{Link: map[string]sourceRoute{"b": {LinkReason: "no carrier on x (down)"}}})
	if rows := b.list(); rows[0].State != stateLinkDown {
		t.Errorf("link down: state %s", rows[0].State)
	}
	b.sweep(sourceFacts{Boots: heard("boot-0", -time.Second)})
	if len(b.list()) != 1 {
		t.Error("the row of a destination that has restarted went because of a poll before that")
	}
	b.sweep(sourceFacts{Boots: heard("boot-2", time.Second)})
	if len(b.list()) != 0 {
		t.Error("a row of an earlier boot stayed")
	}
	b.mustAsk(t, "b", 2, overTCP("192.0.2.1"))
	b.now = b.now.Add(sourceLease + time.Second)
	b.sweep(sourceFacts{})
	if len(b.list()) != 0 {
		t.Error("a row nobody asks for stayed")
	}
	// A connected destination needs no lease.
	b.mustAsk(t, "b", 3, overTCP("192.0.2.1"))
	last := b.opened[len(b.opened)-1]
	last.mu.Lock()
	last.state = fabrics.StateActive
	last.mu.Unlock()
	b.now = b.now.Add(sourceLease + time.Second)
	b.sweep(sourceFacts{})
	if len(b.list()) != 1 {
		t.Error("a connected row went with its lease")
	}
}

// A destination that asks again while its dropped row is being cleared away must
// not lose its new target to that.
func TestDropSparesADestinationThatAskedAgain(t *testing.T) {
	b := newSourceBench()
	b.mustAsk(t, "b", 1, overTCP("192.0.2.1"))
	group := b.rows[rowKey{testFlow, "b"}].group
	delete(b.rows, rowKey{testFlow, "b"})
	b.mustAsk(t, "b", 2, overTCP("192.0.2.1"))
	b.drop(group, "b")
	if b.opened[0].targets["b"] != 2 || b.opened[0].closed {
		t.Error("the late drop took the new target away")
	}
	// And one whose lane has just been ended gets a new lane.
	delete(b.rows, rowKey{testFlow, "b"})
	b.drop(group, "b")
	b.groups[group.key] = group // as a question sees it that looked just before
	if a := b.mustAsk(t, "b", 3, overTCP("192.0.2.1")); a.State != statePending {
		t.Errorf("answer %+v", a)
	}
}

// A release that comes while the target is being set leaves nothing behind: no row
// would ever take that target away.
func TestAskOfADestinationThatIsReleasedMeanwhile(t *testing.T) {
	b := newSourceBench()
	b.mustAsk(t, "c", 1, overTCP("192.0.2.1"))
	lane := b.opened[0]
	lane.during = func() {
		b.mu.Lock()
		delete(b.rows, rowKey{testFlow, "b"})
		b.mu.Unlock()
	}
	_, err := b.ask(request("b", "info"), "/dom", fabrics.TargetInfo{ID: 2, Provider: "tcp"}, overTCP("192.0.2.1"))
	if !errors.Is(err, errReleased) {
		t.Errorf("error %v", err)
	}
	if _, still := lane.targets["b"]; still || lane.closed || len(lane.targets) != 1 {
		t.Errorf("targets %v, closed %v: want only c's", lane.targets, lane.closed)
	}
	b.next = func(l *fakeLane) { l.during = lane.during }
	if _, err := b.ask(request("b", "info"), "/dom", fabrics.TargetInfo{ID: 2, Provider: "tcp"}, overTCP("198.51.100.1")); err == nil {
		t.Error("no error")
	}
	if len(b.opened) != 2 || !b.opened[1].closed || len(b.groups) != 1 {
		t.Errorf("%d lanes, %d groups: the lane for the released destination stays", len(b.opened), len(b.groups))
	}
}

func TestDestinationsOfAFlowAreBounded(t *testing.T) {
	b := newSourceBench()
	for i := range maxDestinations {
		b.mustAsk(t, fmt.Sprint("d", i), uint64(i), overTCP("192.0.2.1"))
	}
	if _, err := b.ask(request("more", "info"), "/dom", fabrics.TargetInfo{Provider: "tcp"}, overTCP("192.0.2.1")); err == nil {
		t.Error("one more destination was taken")
	}
	b.mustAsk(t, "d0", 0, overTCP("192.0.2.1")) // a known one may ask as often as it likes
	stats := 0
	b.opened[0].read = func() { stats++ }
	if rows := b.list(); len(rows) != maxDestinations || stats != 1 {
		t.Errorf("%d rows, the lane was read %d times for one list", len(rows), stats)
	}
	b.now = b.now.Add(sourceLease + time.Second)
	stats = 0
	b.sweep(sourceFacts{})
	b.opened[0].mu.Lock()
	defer b.opened[0].mu.Unlock()
	if len(b.rows) != 0 || stats > 2 { // the second is the lane's last
		t.Errorf("%d rows stay, the lane was read %d times for one sweep", len(b.rows), stats)
	}
}

func TestReplicationStatus(t *testing.T) {
	for want, err := range map[int]error{
		http.StatusCreated:             nil,
		http.StatusBadRequest:          fmt.Errorf("set target: %w", &fabrics.FieldError{Field: "regions", Err: errors.New("none")}),
		http.StatusInternalServerError: errors.New("no such flow"),
	} {
		if got := replicationStatus(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
}

func TestSourceFollowsADestinationThatFellBack(t *testing.T) {
	b := newSourceBench()
	route := sourceRoute{Provider: fabrics.Verbs, Address: "192.0.2.1", LinkUp: true, Fallback: true}
	var log bytes.Buffer
	b.log = slog.New(logging.NewHandler(&log, slog.LevelInfo))
	b.mustAsk(t, "b", 1, route)
	b.mustAsk(t, "b", 1, route)
	if rows := b.list(); rows[0].Provider != "tcp" || !rows[0].Fallback {
		t.Errorf("provider %s fallback %v", rows[0].Provider, rows[0].Fallback)
	}
	if text := log.String(); strings.Count(text, `"provider_fallback","from":"verbs","to":"tcp"`) != 1 || !strings.Contains(text, `"role":"source","peer":"b"`) {
		t.Errorf("want it said once: %s", text)
	}
}

func TestSourceRowShowsItsOwnTarget(t *testing.T) {
	b := newSourceBench()
	b.mustAsk(t, "b", 1, overTCP("192.0.2.1"))
	b.opened[0].state = fabrics.StateError
	row := sourceRowView(b.list()[0])
	if row.State != stateError || row.LastError != "why not" || row.Grains != 7 || row.Bytes != 70 || row.OriginGaps != 3 || row.HeadIndex != 4711 || row.DomainID != "dom" {
		t.Errorf("row %+v", row)
	}
	b.opened[0].head = mxl.UndefinedIndex
	if row := sourceRowView(b.list()[0]); row.HeadIndex != 0 {
		t.Errorf("head of an unwritten origin: %d", row.HeadIndex)
	}
}

func TestParseReplicationRequest(t *testing.T) {
	good := `{"domain_id":"d","flow_id":"` + testFlow.String() + `","dest_host_id":"b","target_info":"{}"}`
	if _, err := parseReplicationRequest([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`[]`:   "body is not a JSON object",
		`null`: "body is not a JSON object",
		`{`:    "body is not a JSON object",
		`{"domain_id":"d","flow_id":"x","dest_host_id":"b","target_info":"{}"}`: `flow_id "x" is not a UUID`,
		`{"flow_id":"x"}`: "domain_id is missing",
		`{"domain_id":"d","flow_id":"x","dest_host_id":"b","target_info":{}}`:                                    "target_info is not a string",
		`{"domain_id":"","flow_id":"x","dest_host_id":"b","target_info":""}`:                                     "domain_id is empty",
		`{"domain_id":"d","flow_id":"x","dest_host_id":7,"target_info":""}`:                                      "dest_host_id is not a string",
		`{"domain_id":"d","flow_id":"x","dest_host_id":"` + strings.Repeat("b", 256) + `","target_info":"{}"}`:   "dest_host_id is longer than 255 bytes",
		strings.Replace(good, `"target_info"`, `"dest_boot_id":"`+strings.Repeat("b", 256)+`","target_info"`, 1): "dest_boot_id is longer than 255 bytes",
	} {
		if _, err := parseReplicationRequest([]byte(body)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}

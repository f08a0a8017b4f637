package fabrics

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// testFlow describes one flow and where it lives on both sides.
type testFlow struct {
	id     uuid.UUID
	def    string
	origin *mxl.Domain
	mirror *mxl.Domain
}

func videoDef(media string, width, height int, rate string) string {
	return fmt.Sprintf(`{"id":"%%s","label":"test","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["test:Video"]},
	"format":"urn:x-nmos:format:video","parents":[],"media_type":"%s","grain_rate":%s,"frame_width":%d,"frame_height":%d,
	"interlace_mode":"progressive","colorspace":"BT709","components":[
	{"name":"Y","width":%d,"height":%d,"bit_depth":10},{"name":"Cb","width":%d,"height":%d,"bit_depth":10},
	{"name":"Cr","width":%d,"height":%d,"bit_depth":10}%s]}`,
		media, rate, width, height, width, height, width/2, height, width/2, height, keyComponent(media, width, height))
}

func keyComponent(media string, width, height int) string {
	if media != "video/v210a" {
		return ""
	}
	return fmt.Sprintf(`,{"name":"Key","width":%d,"height":%d,"bit_depth":10}`, width, height)
}

const (
	rate50   = `{"numerator":50,"denominator":1}`
	rate5994 = `{"numerator":60000,"denominator":1001}`
)

const dataDef = `{"id":"%s","label":"test","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["test:Data"]},
	"format":"urn:x-nmos:format:data","parents":[],"media_type":"video/smpte291","grain_rate":` + rate50 + `}`

func audioDef(channels int) string {
	return fmt.Sprintf(`{"id":"%%s","label":"test","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["test:Audio"]},
	"format":"urn:x-nmos:format:audio","parents":[],"media_type":"audio/float32","sample_rate":{"numerator":48000},
	"channel_count":%d,"bit_depth":32}`, channels)
}

// domains makes an origin and a mirror domain on tmpfs with the given histories.
func domains(t testing.TB, originHistory, mirrorHistory time.Duration) (origin, mirror *mxl.Domain) {
	t.Helper()
	root, err := os.MkdirTemp("/dev/shm", "fabrics-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	open := func(name string, history time.Duration) *mxl.Domain {
		path := root + "/" + name
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		options := fmt.Sprintf(`{"urn:x-mxl:option:history_duration/v1.0":%d}`, history.Nanoseconds())
		if err := os.WriteFile(path+"/options.json", []byte(options), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := mxl.OpenDomain(path)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	return open("origin", originHistory), open("mirror", mirrorHistory)
}

func newFlow(t testing.TB, def string, originHistory, mirrorHistory time.Duration) *testFlow {
	t.Helper()
	f := &testFlow{id: uuid.New()}
	f.origin, f.mirror = domains(t, originHistory, mirrorHistory)
	f.def = fmt.Sprintf(def, f.id)
	return f
}

func (f *testFlow) grainWriter(t testing.TB, d *mxl.Domain) *mxl.DiscreteWriter {
	t.Helper()
	w, _, err := d.CreateDiscreteWriter([]byte(f.def), mxl.FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func (f *testFlow) sampleWriter(t testing.TB, d *mxl.Domain) *mxl.ContinuousWriter {
	t.Helper()
	w, _, err := d.CreateContinuousWriter([]byte(f.def), mxl.FlowOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func openTarget(t testing.TB, cfg TargetConfig) *Target {
	t.Helper()
	if cfg.Provider == "" {
		cfg.Provider = TCP
	}
	if cfg.Address == "" {
		cfg.Address = "127.0.0.1"
	}
	target, err := OpenTarget(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		start := time.Now()
		if err := target.Close(); err != nil {
			t.Errorf("close target: %v", err)
		}
		if took := time.Since(start); took > closeWithin() {
			t.Errorf("closing the target took %v", took)
		}
	})
	return target
}

func openSource(t testing.TB, f *testFlow, change ...func(*SourceConfig)) *Source {
	t.Helper()
	cfg := SourceConfig{Domain: f.origin, FlowID: f.id, Provider: TCP, Address: "127.0.0.1"}
	for _, c := range change {
		c(&cfg)
	}
	s, err := OpenSource(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		start := time.Now()
		if err := s.Close(); err != nil {
			t.Errorf("close source: %v", err)
		}
		if took := time.Since(start); took > closeWithin() {
			t.Errorf("closing the source took %v", took)
		}
	})
	return s
}

// closeWithin is how long closing a lane may take: more in an emulated machine.
func closeWithin() time.Duration {
	if os.Getenv("RDMA_VM") != "" {
		return 10 * time.Second
	}
	return patience / 4 // a lane ends within a second where it gets a processor
}

// patience is how long a test waits at least for what must happen: on a machine where
// thirty threads want each processor everything takes long, and nothing is wrong.
const patience = 20 * time.Second

// eventually polls until ok holds.
func eventually(t testing.TB, limit time.Duration, what func() string, ok func() bool) {
	t.Helper()
	limit = max(limit, patience)
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what())
		}
	}
}

func connect(t testing.TB, s *Source, key string, target *Target) {
	t.Helper()
	if err := s.SetTarget(key, target.Info()); err != nil {
		t.Fatal(err)
	}
	eventually(t, 5*time.Second, func() string {
		return fmt.Sprintf("connected: source %+v target %+v", targetOf(s, key), target.Stats().LastError)
	}, func() bool { return targetOf(s, key).Connected && target.Stats().Connected })
}

func targetOf(s *Source, key string) TargetStatus {
	for _, st := range s.Stats().Targets {
		if st.Key == key {
			return st
		}
	}
	return TargetStatus{}
}

// pattern fills a grain's payload with what only this index has.
func pattern(b []byte, index uint64) {
	r := rand.NewPCG(index, 7)
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, r.Uint64())
		b = b[8:]
	}
}

func checkPattern(t testing.TB, b []byte, index uint64) {
	t.Helper()
	r := rand.NewPCG(index, 7)
	for at := 0; len(b)-at >= 8; at += 8 {
		if got, want := binary.LittleEndian.Uint64(b[at:]), r.Uint64(); got != want {
			t.Fatalf("index %d, byte %d: %016x, want %016x", index, at, got, want)
		}
	}
}

func writeGrain(t testing.TB, w *mxl.DiscreteWriter, index uint64, flags uint32, steps ...int) {
	t.Helper()
	payload, err := w.OpenGrain(index)
	if err != nil {
		t.Fatal(err)
	}
	if flags&mxl.GrainInvalid == 0 {
		pattern(payload, index)
	}
	for _, n := range steps {
		if err := w.Commit(index, n, flags); err != nil {
			t.Fatal(err)
		}
	}
}

// fullPass returns when the lane has made one whole pass: commands run at the
// beginning of a pass, so the second one runs after the first one's pass.
func fullPass(l *lane) {
	for range 2 {
		begun := make(chan struct{})
		l.do(func() { close(begun) })
		<-begun
	}
}

package mxl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
)

// shmDir returns a directory on tmpfs that goes with the test.
func shmDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "mxl-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func newDomain(t testing.TB, historyNS uint64) *Domain {
	t.Helper()
	dir := shmDir(t)
	if historyNS != 0 {
		text := fmt.Sprintf(`{%q: %d}`, HistoryKey, historyNS)
		if err := os.WriteFile(filepath.Join(dir, nameOptions), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return openDomain(t, dir)
}

func openDomain(t testing.TB, dir string) *Domain {
	t.Helper()
	d, err := OpenDomain(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

type object = map[string]any

func baseDef(format string) object {
	return object{
		"id": uuid.NewString(), "format": "urn:x-nmos:format:" + format, "label": "test",
		"tags": object{GroupHintTag: []any{"test:role"}},
	}
}

func videoDef(width, height int, num, den int64, change ...func(object)) []byte {
	d := baseDef("video")
	d["media_type"], d["frame_width"], d["frame_height"] = MediaV210, width, height
	d["grain_rate"] = object{"numerator": num, "denominator": den}
	return text(d, change...)
}

func dataDef(num, den int64, change ...func(object)) []byte {
	d := baseDef("data")
	d["media_type"] = MediaSMPTE291
	d["grain_rate"] = object{"numerator": num, "denominator": den}
	return text(d, change...)
}

func audioDef(channels int, rate int64, change ...func(object)) []byte {
	d := baseDef("audio")
	d["media_type"], d["channel_count"], d["bit_depth"] = "audio/float32", channels, 32
	d["sample_rate"] = object{"numerator": rate}
	return text(d, change...)
}

func set(name string, v any) func(object) { return func(o object) { o[name] = v } }
func without(name string) func(object)    { return func(o object) { delete(o, name) } }

func text(d object, change ...func(object)) []byte {
	for _, c := range change {
		c(d)
	}
	b, err := json.Marshal(d)
	if err != nil {
		panic(err)
	}
	return b
}

func newGrainWriter(t testing.TB, d *Domain, def []byte) *DiscreteWriter {
	t.Helper()
	w, created, err := d.CreateDiscreteWriter(def, FlowOptions{})
	if err != nil || !created {
		t.Fatalf("create: created %v, %v", created, err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func newSampleWriter(t testing.TB, d *Domain, def []byte, opt FlowOptions) *ContinuousWriter {
	t.Helper()
	w, created, err := d.CreateContinuousWriter(def, opt)
	if err != nil || !created {
		t.Fatalf("create: created %v, %v", created, err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func newGrainReader(t testing.TB, d *Domain, id uuid.UUID) *DiscreteReader {
	t.Helper()
	r, err := d.OpenDiscreteReader(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func newSampleReader(t testing.TB, d *Domain, id uuid.UUID) *ContinuousReader {
	t.Helper()
	r, err := d.OpenContinuousReader(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// write commits a whole grain filled with one byte.
func write(t testing.TB, w *DiscreteWriter, index uint64, fill byte) {
	t.Helper()
	p, err := w.OpenGrain(index)
	if err != nil {
		t.Fatal(err)
	}
	for i := range p {
		p[i] = fill
	}
	if err := w.Commit(index, w.TotalSlices(), 0); err != nil {
		t.Fatal(err)
	}
}

// eventually polls a condition until a deadline.
func eventually(t testing.TB, what string, within time.Duration, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, within)
		}
	}
}

package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// A marker that cannot be written is logged once, tried again now and then, and stops
// nothing.
func TestNamingTheSourceOfAMirror(t *testing.T) {
	var lines bytes.Buffer
	b := newDeedBench()
	b.log = slog.New(slog.NewJSONHandler(&lines, nil))
	at := time.Unix(1_700_000_000, 0)
	b.now = func() time.Time { return at }
	try := func(err error) {
		b.room.err = err
		b.nameSource("dom", "node-c")
		b.wait()
	}
	readOnly := errors.New("domain_def.json: read-only file system")
	for range 5 {
		try(readOnly)
	}
	if len(b.room.named) != 1 || strings.Count(lines.String(), "mirror_source_name_failed") != 1 {
		t.Fatalf("tried %q, logged %s", b.room.named, lines.String())
	}
	for range 5 {
		at = at.Add(namingRest)
		try(readOnly)
	}
	if len(b.room.named) != 6 || strings.Count(lines.String(), "mirror_source_name_failed") != 1 {
		t.Errorf("tried %q, logged %s", b.room.named, lines.String())
	}
	if f, _ := b.flow(b.key); f == nil {
		t.Error("the replication has no mirror meanwhile")
	}
	at = at.Add(namingRest)
	try(mirror.ErrRemoving)
	try(nil)
	if len(b.room.named) != 8 || b.room.named[7] != "dom node-c" || len(b.naming) != 0 ||
		strings.Count(lines.String(), `"msg":"mirror_source_named","domain_id":"dom","peer":"node-c"`) != 1 {
		t.Errorf("tried %q, logged %s", b.room.named, lines.String())
	}
	try(readOnly)
	b.forgetNaming([]mirror.DomainStep{{DomainID: "dom"}})
	if len(b.naming) != 1 {
		t.Error("forgot a domain that is there")
	}
	b.forgetNaming(nil)
	if len(b.naming) != 0 {
		t.Errorf("remembers %v", b.naming)
	}
}

package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// A removal that readers refuse is no failed one: the next pass tells and counts it.
func TestARemovalThatReadersRefuseIsNotAFailedOne(t *testing.T) {
	for _, tc := range []struct {
		err    error
		failed bool
	}{
		{&mirror.BusyError{Readers: []mirror.Reader{{PID: 7, Comm: "player"}}}, false},
		{&mirror.BusyError{Unknown: "another PID namespace"}, false},
		{&mirror.ObstacleError{Path: "/mxl/mirror-dom/x", Why: "something is mounted on it"}, true},
		{errors.New("device or resource busy"), true},
		{mirror.ErrRemoving, false},
	} {
		var lines bytes.Buffer
		b := newDeedBench()
		b.room.err, b.log = tc.err, slog.New(slog.NewJSONHandler(&lines, nil))
		told := 0
		tell := func(err error) {
			if failed(err) {
				told++
			}
		}
		b.removeFlow(t.Context(), b.key, mirror.OriginMissing, 0, tell)
		b.wait()
		b.removeDomain(t.Context(), "dom", []mirror.Key{b.key}, mirror.Orphan, func(_ mirror.Removal, err error) { tell(err) })
		b.wait()
		if (told == 2) != tc.failed {
			t.Errorf("%v: counted %d times", tc.err, told)
		}
		if busy := errors.Is(tc.err, mirror.ErrBusy); busy == strings.Contains(lines.String(), "remove_failed") {
			t.Errorf("%v: %s", tc.err, lines.String())
		}
	}
}

package agent

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// mirror_domain_busy of a DELETE has the readers or the reason, never an empty one.
func TestADeleteThatIsRefusedSaysWhoOrWhy(t *testing.T) {
	for _, tc := range []struct {
		busy     mirror.BusyError
		has, not string
	}{
		{mirror.BusyError{Readers: []mirror.Reader{{PID: 7, Comm: "player"}}}, `"readers":"7 (player)"`, `"error"`},
		{mirror.BusyError{Unknown: "another PID namespace"}, `"error":"another PID namespace"`, `"readers"`},
	} {
		var lines bytes.Buffer
		busyEvent("dom", "/mxl/mirror-dom", &tc.busy).Log(slog.New(slog.NewJSONHandler(&lines, nil)))
		line := lines.String()
		for _, want := range []string{tc.has, `"msg":"mirror_domain_busy"`, `"domain":"dom"`, `"domain_id":"dom"`, `"path":"/mxl/mirror-dom"`, `"reason":"api"`, `"level":"WARN"`} {
			if !strings.Contains(line, want) {
				t.Errorf("no %s in %s", want, line)
			}
		}
		if strings.Contains(line, tc.not) {
			t.Errorf("%s in %s", tc.not, line)
		}
	}
}

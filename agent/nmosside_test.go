package agent

import (
	"log/slog"
	"testing"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
)

// TestNMOSSideObserves: whatever a host's peers and receivers are learnt from has to
// answer before a mirror is taken for an orphan, a Query API without a Registration
// API too; being registered is asked for only where there is one of the latter.
func TestNMOSSideObserves(t *testing.T) {
	for _, c := range []struct {
		settings             []string
		configured, observes bool
	}{
		{nil, false, false},
		{[]string{"NMOS_REGISTRY_ADDRESS=192.0.2.9"}, true, true},
		{[]string{"NMOS_QUERY_ADDRESS=192.0.2.9"}, false, true},
		{[]string{"NMOS_DNS_SD=true"}, true, true},
	} {
		store, err := config.Load(config.Machine{Environ: append([]string{"STATE_DIR=" + t.TempDir(), "HOST_ID=a", "NMOS_HOST_ADDRESS=192.0.2.1"}, c.settings...)})
		if err != nil {
			t.Fatal(err)
		}
		n, err := newNMOSSide(store.Config(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if n.configured != c.configured || n.observes != c.observes {
			t.Errorf("%q: configured %v, observes %v", c.settings, n.configured, n.observes)
		}
	}
}

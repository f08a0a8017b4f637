package agent

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

func TestOtherProvider(t *testing.T) {
	noVerbs := fmt.Errorf("open: %w", &fabrics.ProviderError{Err: errors.New("provider verbs has no interface for 192.0.2.1")})
	for name, c := range map[string]struct {
		err    error
		route  sourceRoute
		target fabrics.Provider
		want   fabrics.Provider
	}{
		"verbs cannot be had, tcp may be used":    {noVerbs, sourceRoute{Provider: fabrics.Verbs, Fallback: true}, fabrics.Verbs, fabrics.TCP},
		"verbs cannot be had, nothing else may":   {noVerbs, sourceRoute{Provider: fabrics.Verbs}, fabrics.Verbs, ""},
		"the origin is to blame":                  {errors.New("no flow"), sourceRoute{Provider: fabrics.Verbs, Fallback: true}, fabrics.Verbs, ""},
		"this end is set to tcp":                  {errors.New("provider: verbs"), sourceRoute{Provider: fabrics.TCP}, fabrics.Verbs, fabrics.TCP},
		"the target is for tcp, this end is not":  {errors.New("provider: tcp"), sourceRoute{Provider: fabrics.Verbs}, fabrics.TCP, ""},
		"the target is for tcp, and that is gone": {noVerbs, sourceRoute{Provider: fabrics.TCP}, fabrics.TCP, ""},
	} {
		if got := otherProvider(c.err, c.route, c.target); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPullFollowsASourceThatFellBack: a source that cannot send over verbs says so,
// and a destination that may fall back makes a target for tcp in the same pass, and
// keeps to it until the link or the source has been away; one that may not shows the
// source's reason.
func TestPullFollowsASourceThatFellBack(t *testing.T) {
	for _, may := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newPullBench(t)
			defer b.cancel()
			wish := aWish()
			wish.Provider, wish.Fallback = fabrics.Verbs, may
			b.askErr = errors.New("http 500: provider verbs has no interface for 192.0.2.1")
			b.answer = peers.ReplicationAnswer{State: stateError, Provider: "tcp"}
			b.said = func(req peers.ReplicationRequest, target targetSetup) (peers.ReplicationAnswer, error) {
				if target.Provider == fabrics.TCP {
					return peers.ReplicationAnswer{ReplicationID: "id-1", State: stateActive}, nil
				}
				return b.answer, b.askErr
			}
			b.passes(2, wish)
			v := b.seen.Load()
			if !may {
				if len(b.setups) != 1 || v.State != stateError || v.Error != b.askErr.Error() || v.Fallback {
					t.Errorf("%d targets, view %+v", len(b.setups), v)
				}
				return
			}
			if len(b.setups) != 2 || b.setups[1].Provider != fabrics.TCP || !v.Fallback || v.Provider != fabrics.TCP || v.State == stateError {
				t.Errorf("%d targets, view %+v", len(b.setups), v)
			}
			wish.MirrorGeneration++
			b.passes(2, wish)
			if n := len(b.setups); n != 3 || b.setups[2].Provider != fabrics.TCP {
				t.Errorf("the mirror was rebuilt: %d targets, the last over %s", n, b.setups[n-1].Provider)
			}
			wish.BootID = "another"
			b.passes(2, wish)
			if n := len(b.setups); n != 5 || b.setups[3].Provider != fabrics.Verbs || b.setups[4].Provider != fabrics.TCP {
				t.Errorf("the source was restarted: %d targets, the last over %s", n, b.setups[n-1].Provider)
			}
		})
	}
}

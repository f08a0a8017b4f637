package agent

import (
	"errors"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
)

// otherProvider is what a source that could not take a target on could send over: a
// destination that may use it makes another target (PROVIDER_FALLBACK). Empty when
// the provider is not to blame, or there is no other.
//
// A destination that has fallen back by itself needs no word of it: its target is for
// tcp, and a source that may fall back sends over tcp then.
func otherProvider(err error, route sourceRoute, target fabrics.Provider) fabrics.Provider {
	var failed *fabrics.ProviderError
	switch {
	case target != fabrics.Verbs:
		return ""
	case route.Provider == fabrics.TCP:
		return fabrics.TCP // it was set to send over tcp
	case route.Fallback && errors.As(err, &failed):
		return fabrics.TCP // verbs cannot be had here
	}
	return ""
}

package fabrics

// State is what a lane says about one connection: a target as its own lane sees
// it, or one target of a source lane.
type State uint32

const (
	// StatePending is set up but nothing was committed or completed yet.
	StatePending State = iota
	// StateActive moves media, or would if the origin wrote any.
	StateActive
	// StateError failed; the lane keeps trying where that makes sense.
	StateError
)

// String returns the word used in the control API.
func (s State) String() string {
	switch s {
	case StatePending:
		return "pending"
	case StateActive:
		return "active"
	default:
		return "error"
	}
}

// Provider is a libfabric provider that carries MXL flows between hosts.
type Provider string

const (
	// TCP is libfabric's tcp provider with connected endpoints.
	TCP Provider = "tcp"
	// Verbs is libfabric's verbs provider with connected (RC) endpoints.
	Verbs Provider = "verbs"
)

package mirror

// Reason says why a mirror flow or domain was removed or rebuilt. The values
// are those of the contract's sections "Mirror health" and "Mirror cleanup".
type Reason string

// Reasons for which this agent removes one flow.
const (
	OriginGone          Reason = "origin_gone"           // origin inactive longer than MIRROR_GRACE_S, nobody wants it
	OriginMissing       Reason = "origin_missing"        // origin flow gone for MIRROR_IDLE_GRACE_S
	NoDemand            Reason = "no_demand"             // on-demand mode, nobody wants it
	Excluded            Reason = "excluded"              // the filter excludes it
	OriginConfigChanged Reason = "origin_config_changed" // the origin has another definition
	TestHook            Reason = "api"                   // POST …/rebuild
	Replaced            Reason = "replaced"              // something else removed or replaced it
)

// WriterFailed is the reason of a flow that is absent because it cannot be made: the
// log event of that name has the error.
const WriterFailed Reason = "mirror_writer_failed"

// Reasons for which this agent removes a whole domain. As the reason of a
// later rebuild they carry the prefix "mirror_domain_" ([Reason.ForFlow]).
const (
	SameNode Reason = "same_node"
	Orphan   Reason = "orphan"
	IdleLong Reason = "idle"
	Delete   Reason = "api"  // DELETE /api/v1/mirrors/{domain_id}
	OnExit   Reason = "exit" // MXL_CLEANUP_ON_EXIT=true
)

// ForFlow turns the reason of a domain's removal into the one its flows
// remember: mirror_domain_idle, mirror_domain_orphan, ….
func (r Reason) ForFlow() Reason { return "mirror_domain_" + r }

// sight is how much of a reader check a removal needs.
type sight int

const (
	noCheck    sight = iota // readers do not matter
	seenOnly                // a reader that is seen refuses, an incomplete check does not
	mustBeFree              // complete sight and no reader
)

// needs gives the reader check a removal of one flow asks for. The contract's
// rebuild rules remove origin_gone "without a reader check" and rebuild for
// another definition or the test hook "readers or not". For the removals of an
// offered flow they name no check; a reader that is seen still refuses them.
func (r Reason) needs() sight {
	switch r {
	case OriginGone, OriginConfigChanged, TestHook, OnExit:
		return noCheck
	case NoDemand, Excluded:
		return seenOnly
	}
	return mustBeFree
}

// Package nmos is the agent's side of AMWA NMOS: its own IS-04 v1.3 Node and
// the registration of that Node, the observation of a registry's nodes,
// devices and receivers, the IS-05 reads that say which MXL flow a receiver
// wants, and the demand that follows from them.
//
// Facts leave the package as immutable values ([Snapshot]); decisions are pure
// functions ([ComputeDemand], [ChooseOrigins]). Every document of a registry or
// of another node is foreign: a resource that cannot be understood costs that
// resource only, is named in the log once and is counted.
//
// Sources: IS-04 v1.3, IS-05 v1.1 with the v1.2 MXL transport, BCP-007-03. The
// sections named in comments ("NMOS reference §4.1") are those of the project's
// NMOS reference.
package nmos

const (
	// TransportMXL is the transport URN of MXL receivers (BCP-007-03).
	TransportMXL = "urn:x-nmos:transport:mxl"
	// ServiceType is the Node service type by which agents find each other.
	ServiceType = "urn:x-leeo86:service:mxl-fabrics-agent/v1.0"
	// HostIDTag is the Node tag that carries the agent's HOST_ID.
	HostIDTag = "urn:x-leeo86:mxl-fabrics-agent:host-id"
)

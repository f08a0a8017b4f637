// Package fabrics moves MXL flows between hosts over libfabric.
//
// A Target owns the receiving end of one flow: it listens, accepts one initiator
// at a time and commits what arrives to a mirror flow. A Source owns the sending
// end: it reads one origin flow and writes it to any number of targets, each with
// its own connection, state and error. Both run on one locked OS thread, a lane.
//
// The protocol is that of the MXL SDK's fabrics library; both roles work against
// an SDK peer over connected endpoints (tcp and verbs).
package fabrics

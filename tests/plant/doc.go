// Package plant builds a plant of several hosts on one machine: every host is a
// network namespace with its own devices, addresses and /sys, and its own MXL
// root on a tmpfs of its own, in which the real binaries run. A namespace
// between them holds the cables, the control network's bridge and the registry.
//
//	node-a ── to-node-b ═══ cable ═══ to-node-a ── node-b     a /24 of their own
//	   └───── control ─────┐       ┌───── control ─────┘      203.0.113.0/24
//	                     bridge, registry
//
// A cable that is pulled takes the carrier from both ends, as on a real link,
// and leaves the addresses; the control network goes on. Everything that a plant
// makes, Close takes away; what a plant left behind whose process was killed,
// the next one takes away. Plants may stand side by side.
//
// Building one takes root.
package plant

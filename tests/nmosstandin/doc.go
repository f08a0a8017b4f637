// Package nmosstandin is the test suite's NMOS world in one process: an IS-04
// v1.3 registry (Registration API, Query API with paging and WebSocket
// subscriptions, collection of nodes without heartbeat) and media nodes with
// MXL receivers behind an IS-05 Connection API.
//
// It behaves like the programs captured in tests/fixtures/nmos until it is told
// to misbehave: see [Faults] for single requests and [StandIn.StopRegistry],
// [StandIn.StartRegistry] and [StandIn.DropSockets] for the larger accidents.
// Everything a Go test can do through this package, a script can do over HTTP
// through the control endpoints (control.go).
package nmosstandin

// Package metrics is the agent's Prometheus page. Every series name lives
// here and nowhere else (contract, "Audio timing" and "Mirror health"; agent
// API reference §17).
//
// What describes the present is taken from a Snapshot, a value the reconcile
// pass leaves here; a flow's series vanish with its row. What only ever grows
// is counted here: a lane that ends leaves its counts in the series without a
// flow label, which therefore never decrease.
package metrics

// Prefix of every series of ours.
const Prefix = "mxl_fabrics_agent_"

// Package mirror keeps the mirror domains of this host: the directories
// mirror-<domain id> below the MXL root that hold copies of flows of other
// hosts.
//
// It has two halves. The deeds ([Room], [ReaderCheck]) touch the disk and
// /proc: create, adopt, rebuild and remove mirror flows and domains, always
// below the MXL root and only with this agent's own marker. The decisions
// ([PlanFlow], [JudgeDomain], [MissingClock], [HealthMemory], [RebuildMemory],
// gathered by [Ledger]) are pure functions of facts and a clock that is passed
// in; they never touch anything.
//
// The rules are those of the contract's sections "Mirror cleanup", "Single
// mirror flows", "Mirror health" and "Rebuild rules".
package mirror

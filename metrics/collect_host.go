package metrics

// host is the process, the host, NMOS and the peers.
func (r *rows) host(s Snapshot) {
	r.emit(info, 1, utf8(s.HostID), utf8(s.Version), utf8(s.MXLVersion), utf8(s.LibfabricVersion))
	r.emit(domains, float64(s.DomainsLocal), "local")
	r.emit(domains, float64(s.DomainsMirror), "mirror")
	r.emit(domains, float64(s.DomainsConflict), "conflict")
	r.emit(flows, float64(s.FlowsActive), "origin", "active")
	r.emit(flows, float64(s.FlowsInactive), "origin", "inactive")
	r.emit(tmpfsFree, float64(s.TmpfsFree))
	r.emit(tmpfsSize, float64(s.TmpfsSize))
	r.emit(taiOffset, float64(s.TAIOffset))
	r.emit(originConflicts, float64(s.OriginConflicts))
	r.emit(registryUp, truth(s.RegistryUp))
	r.emit(nmosPollErrors, float64(s.NMOSPollErrors))
	r.states(demandEntries, s.Demand, "local", "replicating", "unresolved", "stale_reference")

	up := 0
	for _, p := range s.Peers {
		if p.Up {
			up++
		}
		r.add(peerUp, largest, truth(p.Up), utf8(p.HostID), utf8(p.Interface))
		if p.Retransmits != nil {
			r.add(peerRetransmits, largest, float64(*p.Retransmits), utf8(p.HostID), utf8(p.Device))
		}
	}
	r.emit(peersUp, float64(up))

	r.emit(requestedACKTimeout, s.RequestedACKTimeout.Seconds())
	r.emit(requestedRetries, float64(s.RequestedRetries))
	r.emit(queuePairsUnreported, float64(s.QueuePairsUnreported))
	r.emit(stallThreshold, AudioStall.Seconds(), "audio")
	r.emit(stallThreshold, GrainStall.Seconds(), "grain")
}

// states emits the known states of a gauge, at 0 when nothing is in one, and
// whatever else there is.
func (r *rows) states(f family, counts map[string]int, known ...string) {
	for _, state := range known {
		r.add(f, sum, 0, state)
	}
	for state, n := range counts {
		r.add(f, sum, float64(n), utf8(state))
	}
}

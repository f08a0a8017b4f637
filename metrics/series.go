package metrics

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Kind is a series' Prometheus type.
type Kind string

// The types that occur.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Histogram Kind = "histogram"
)

// PerFlow says what METRICS_PER_FLOW=false does to a series.
type PerFlow int

const (
	// Always: the series does not depend on the setting.
	Always PerFlow = iota
	// Dropped: the series exists per flow only.
	Dropped
	// Totalled: without the setting the series is there without its flow's
	// labels, summed over all flows there ever were.
	Totalled
)

// Series describes one metric family.
type Series struct {
	Name    string // with the prefix
	Kind    Kind
	Labels  []string
	PerFlow PerFlow
	// TotalLabels are the labels of a totalled series.
	TotalLabels []string
	Help        string
}

// All returns every family of ours in byte order of the names. The go_ and
// process_ families of the client library come on top.
func All() []Series {
	list := make([]Series, 0, len(families))
	for _, s := range families {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b Series) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// family is a key of the table below.
type family int

const (
	info family = iota
	domains
	flows
	tmpfsFree
	tmpfsSize
	taiOffset
	peersUp
	peerUp
	peerRetransmits
	originConflicts
	registryUp
	nmosPollErrors
	demandEntries

	replicationsActive
	replicationState
	replicationGrains
	replicationBytes
	replicationErrors
	replicationRestarts
	replicationGaps
	replicationLagGrains
	replicationLagMS
	queueDepth
	grainTransfer
	setupSeconds

	sampleAge
	sampleAgeMax
	deliveryGap
	lateDeliveries
	sampleTransfer
	sampleTransferMax
	sampleStalls
	grainStalls
	stallThreshold
	threadStall
	reconcileWork
	queuePairs
	requestedACKTimeout
	requestedRetries
	queuePairsUnreported
	strangersRefused

	mirrorStale
	mirrorState
	mirrorAge
	mirrorRebuilds
	mirrorsStale
	mirrorDomains
	mirrorDomainsRemoved
	mirrorDomainsRefused
	mirrorFlowsRemoved
	mirrorFlowsRefused

	familyCount
)

var families = [familyCount]Series{
	info: {Name: Prefix + "info", Kind: Gauge, Labels: []string{"host_id", "version", "mxl_version", "libfabric_version"},
		Help: "1; the host id and the versions of this agent."},
	domains: {Name: Prefix + "domains", Kind: Gauge, Labels: []string{"kind"},
		Help: "MXL domains below the scan path: local, mirror, conflict."},
	flows: {Name: Prefix + "flows", Kind: Gauge, Labels: []string{"kind", "state"},
		Help: "Flows of local domains, by whether a writer holds them."},
	tmpfsFree: {Name: Prefix + "tmpfs_free_bytes", Kind: Gauge, Help: "Free bytes on the filesystem of the scan path."},
	tmpfsSize: {Name: Prefix + "tmpfs_size_bytes", Kind: Gauge, Help: "Size of the filesystem of the scan path in bytes."},
	taiOffset: {Name: Prefix + "tai_offset_seconds", Kind: Gauge, Help: "TAI offset of the kernel. 0 means that grain indexes are seconds off."},
	peersUp:   {Name: Prefix + "peers_up", Kind: Gauge, Help: "Peers whose control plane and fabric link are up."},
	peerUp: {Name: Prefix + "peer_up", Kind: Gauge, Labels: []string{"peer", "interface"},
		Help: "1 while the peer's control plane and the fabric link to it are up."},
	peerRetransmits: {Name: Prefix + "peer_rdma_retransmits_total", Kind: Counter, Labels: []string{"peer", "device"},
		Help: "Segments the RDMA device of the link to this peer retransmitted."},
	originConflicts: {Name: Prefix + "origin_conflicts", Kind: Gauge, Help: "Flows that more than one peer offers."},
	registryUp:      {Name: Prefix + "nmos_registry_up", Kind: Gauge, Help: "1 while the NMOS registry answers."},
	nmosPollErrors:  {Name: Prefix + "nmos_poll_errors_total", Kind: Counter, Help: "Polls of the NMOS registry that failed."},
	demandEntries: {Name: Prefix + "demand_entries", Kind: Gauge, Labels: []string{"state"},
		Help: "What local receivers want: local, replicating, unresolved, stale_reference."},

	replicationsActive: {Name: Prefix + "replications_active", Kind: Gauge, Labels: []string{"role", "provider"},
		Help: "Replications in the states active and pending."},
	replicationState: {Name: Prefix + "replication_state", Kind: Gauge, Labels: []string{"flow_id", "peer", "role", "state"}, PerFlow: Dropped,
		Help: "1 for the current state of a replication."},
	replicationGrains: {Name: Prefix + "replication_grains_total", Kind: Counter, Labels: []string{"flow_id", "peer", "role"}, PerFlow: Dropped,
		Help: "Grains moved; transfers for continuous flows."},
	replicationBytes: {Name: Prefix + "replication_bytes_total", Kind: Counter, Labels: []string{"flow_id", "peer", "role"}, PerFlow: Dropped,
		Help: "Payload bytes moved."},
	replicationErrors: {Name: Prefix + "replication_errors_total", Kind: Counter, Labels: []string{"flow_id", "peer", "role"}, PerFlow: Dropped,
		Help: "Errors of a replication since it exists."},
	replicationRestarts: {Name: Prefix + "replication_restarts_total", Kind: Counter, Labels: []string{"flow_id", "peer"}, PerFlow: Dropped,
		Help: "Targets set up again at the destination."},
	replicationGaps: {Name: Prefix + "replication_origin_gaps_total", Kind: Counter, Labels: []string{"flow_id", "peer"}, PerFlow: Dropped,
		Help: "Indexes the origin left unwritten, passed over by the source."},
	replicationLagGrains: {Name: Prefix + "replication_lag_grains", Kind: Gauge, Labels: []string{"flow_id", "peer"}, PerFlow: Dropped,
		Help: "Grains the mirror is behind now; transfer batches for continuous flows."},
	replicationLagMS: {Name: Prefix + "replication_lag_ms", Kind: Gauge, Labels: []string{"flow_id", "peer"}, PerFlow: Dropped,
		Help: "Milliseconds the mirror is behind now."},
	queueDepth: {Name: Prefix + "completion_queue_depth", Kind: Gauge, Labels: []string{"flow_id"}, PerFlow: Dropped,
		Help: "Configured depth of the target's completion queue, 0 on sources."},
	grainTransfer: {Name: Prefix + "grain_transfer_seconds", Kind: Histogram, Labels: []string{"provider"},
		Help: "Time of a grain transfer at the source, from post to completion."},
	setupSeconds: {Name: Prefix + "setup_seconds", Kind: Histogram, Labels: []string{"phase"},
		Help: "Time to set up a replication: target_setup, handshake, first_grain."},

	sampleAge: {Name: Prefix + "replication_sample_age_seconds", Kind: Histogram, Labels: []string{"flow_id", "stage"}, PerFlow: Totalled, TotalLabels: []string{"stage"},
		Help: "Age of the oldest sample of a batch when the source reads it (origin), posts it (sent) and the destination commits it (delivered)."},
	sampleAgeMax: {Name: Prefix + "replication_sample_age_max_seconds", Kind: Gauge, Labels: []string{"flow_id", "stage"}, PerFlow: Totalled, TotalLabels: []string{"stage"},
		Help: "Largest sample age of the last 10 seconds."},
	deliveryGap: {Name: Prefix + "replication_delivery_gap_seconds", Kind: Histogram, Labels: []string{"flow_id"}, PerFlow: Totalled,
		Help: "Time between two commits of a continuous flow at the destination."},
	lateDeliveries: {Name: Prefix + "replication_late_deliveries_total", Kind: Counter, Labels: []string{"flow_id"}, PerFlow: Totalled,
		Help: "Gaps between commits that were much longer than the flow's usual ones."},
	sampleTransfer: {Name: Prefix + "sample_transfer_seconds", Kind: Histogram, Labels: []string{"flow_id"}, PerFlow: Totalled,
		Help: "Time of a sample transfer at the source, from post to completion."},
	sampleTransferMax: {Name: Prefix + "sample_transfer_max_seconds", Kind: Gauge, Labels: []string{"flow_id"}, PerFlow: Totalled,
		Help: "Longest sample transfer of the last 10 seconds."},
	sampleStalls: {Name: Prefix + "sample_transfer_stalls_total", Kind: Counter, Labels: []string{"provider", "flow_id"}, PerFlow: Totalled, TotalLabels: []string{"provider"},
		Help: "Sample transfers that took longer than the threshold."},
	grainStalls: {Name: Prefix + "grain_transfer_stalls_total", Kind: Counter, Labels: []string{"provider"},
		Help: "Grain transfers that took longer than the threshold."},
	stallThreshold: {Name: Prefix + "transfer_stall_threshold_seconds", Kind: Gauge, Labels: []string{"kind"},
		Help: "From how long on a transfer counts as stalled: audio, grain."},
	threadStall: {Name: Prefix + "fabric_thread_stall_seconds", Kind: Histogram, Labels: []string{"task"},
		Help: "Times over 20 ms in which a lane with work made no pass, by the call that held it."},
	reconcileWork: {Name: Prefix + "reconcile_work_seconds", Kind: Histogram, Labels: []string{"work"},
		Help: "Time of the periodic work that runs beside the lanes."},
	queuePairs: {Name: Prefix + "fabric_qp_established_total", Kind: Counter, Labels: []string{"role", "ack_timeout", "retry_count"},
		Help: "Queue pairs established, by the values read back from them."},
	requestedACKTimeout: {Name: Prefix + "fabric_requested_ack_timeout_seconds", Kind: Gauge,
		Help: "FABRIC_ACK_TIMEOUT in seconds, 0 when left to rdma_cm."},
	queuePairsUnreported: {Name: Prefix + "fabric_qp_unreported_total", Kind: Counter,
		Help: "Queue pairs that were established and not read back: more of them at once than are kept."},
	strangersRefused: {Name: Prefix + "fabric_strangers_refused_total", Kind: Counter,
		Help: "Connections to targets refused because they were not the flow's source's."},
	requestedRetries: {Name: Prefix + "fabric_requested_retry_count", Kind: Gauge, Help: "FABRIC_RETRY_COUNT."},

	mirrorStale: {Name: Prefix + "mirror_stale", Kind: Gauge, Labels: []string{"domain_id", "flow_id", "peer"}, PerFlow: Dropped,
		Help: "1 while grains of a mirror flow are due and none come."},
	mirrorState: {Name: Prefix + "mirror_state", Kind: Gauge, Labels: []string{"domain_id", "flow_id", "peer", "state"}, PerFlow: Dropped,
		Help: "1 for the current state of a mirror flow: live, pending, stale, idle."},
	mirrorAge: {Name: Prefix + "mirror_last_grain_age_seconds", Kind: Gauge, Labels: []string{"domain_id", "flow_id", "peer"}, PerFlow: Dropped,
		Help: "Age of the newest grain of a mirror flow."},
	mirrorRebuilds: {Name: Prefix + "mirror_rebuilds_total", Kind: Counter, Labels: []string{"domain_id", "flow_id", "peer"}, PerFlow: Totalled,
		Help: "Times a mirror flow's data file became a new one; readers have to open it again."},
	mirrorsStale: {Name: Prefix + "mirrors_stale", Kind: Gauge, Help: "Mirror flows that are stale."},
	mirrorDomains: {Name: Prefix + "mirror_domains", Kind: Gauge, Labels: []string{"state"},
		Help: "Mirror domains on disk: same_node, orphan, active, idle."},
	mirrorDomainsRemoved: {Name: Prefix + "mirror_domains_removed_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Mirror domains removed."},
	mirrorDomainsRefused: {Name: Prefix + "mirror_domains_refused_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Removals of mirror domains refused because of readers."},
	mirrorFlowsRemoved: {Name: Prefix + "mirror_flows_removed_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Single mirror flows removed."},
	mirrorFlowsRefused: {Name: Prefix + "mirror_flows_refused_total", Kind: Counter, Labels: []string{"reason"},
		Help: "Removals of single mirror flows refused because of readers."},
}

// describe makes the descriptors of a family with and without flow labels.
func describe(s Series) (perFlow, total *prometheus.Desc) {
	perFlow = prometheus.NewDesc(s.Name, s.Help, s.Labels, nil)
	total = perFlow
	if s.PerFlow == Totalled {
		total = prometheus.NewDesc(s.Name, s.Help, s.TotalLabels, nil)
	}
	return perFlow, total
}

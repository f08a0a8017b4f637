package agent

import (
	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/metrics"
)

func bucketsOf(h fabrics.Histogram) metrics.Buckets {
	return metrics.Buckets{Bounds: h.Bounds, Counts: h.Counts, Sum: h.Sum, Max: h.Max.Seconds()}
}

// laneOf is a lane's timing as the metrics take it.
func laneOf(key, role, flowID string, provider fabrics.Provider, continuous bool, t fabrics.Timing) metrics.Lane {
	l := metrics.Lane{
		Key: key, Role: role, FlowID: flowID, Provider: string(provider), Continuous: continuous,
		Transfer: bucketsOf(t.Transfer), TransferStalls: t.TransferStalls,
		AgeOrigin: bucketsOf(t.AgeOrigin), AgeSent: bucketsOf(t.AgeSent), AgeDelivered: bucketsOf(t.AgeDelivered),
		DeliveryGap: bucketsOf(t.DeliveryGap), LateDeliveries: t.LateDeliveries,
	}
	for task, h := range t.ThreadStall {
		if l.ThreadStall == nil {
			l.ThreadStall = make(map[string]metrics.Buckets, len(t.ThreadStall))
		}
		l.ThreadStall[task] = bucketsOf(h)
	}
	return l
}

// sourceOf is what a source's lane counted, for all its targets.
func sourceOf(key, flowID string, provider fabrics.Provider, continuous bool, st fabrics.SourceStats) metrics.Lane {
	return laneOf(key, roleSource, flowID, provider, continuous, st.Timing)
}

// targetOf is what a destination's lane counted.
func targetOf(key, flowID string, provider fabrics.Provider, continuous bool, st fabrics.TargetStats) metrics.Lane {
	l := laneOf(key, roleDestination, flowID, provider, continuous, st.Timing)
	l.Strangers = st.Strangers
	return l
}

package mirror

import (
	"encoding/json"
	"math"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// historyNS gives the ring history an options.json asks for, in nanoseconds;
// the default where the SDK takes the default (MXL format reference §1.2).
func historyNS(options []byte) uint64 {
	var members map[string]json.RawMessage
	if len(options) == 0 || json.Unmarshal(options, &members) != nil {
		return mxl.DefaultHistoryNS
	}
	var history float64
	text, ok := members["urn:x-mxl:option:history_duration/v1.0"]
	if !ok || string(text) == "null" || json.Unmarshal(text, &history) != nil {
		return mxl.DefaultHistoryNS
	}
	if history < 0 || history >= math.MaxInt64 {
		return mxl.DefaultHistoryNS
	}
	return uint64(history)
}

// absurdBytes stands for the size of a flow that no host can hold.
const absurdBytes = 1 << 62

// requiredBytes gives the blocks of a flow. options.json comes from another
// host: a history that would overflow the arithmetic gives absurdBytes.
func requiredBytes(def *mxl.FlowDef, history uint64) uint64 {
	unit := float64(def.PayloadSize() + mxl.PayloadOffset)
	if def.Format.Continuous() {
		unit = 2 * float64(def.ChannelCount) * float64(def.WordSize())
	}
	if float64(history)/1e9*def.Rate.Float()*unit > absurdBytes {
		return absurdBytes
	}
	return mxl.RequiredBytes(def, history)
}

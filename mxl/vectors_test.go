package mxl

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
)

func TestStatusCodes(t *testing.T) {
	var f struct {
		Status   map[string]int `json:"mxlStatus"`
		Format   map[string]int `json:"mxlDataFormat"`
		Location map[string]int `json:"mxlPayloadLocation"`
	}
	readJSON(t, filepath.Join(fixtures, "status-codes.json"), &f)
	ours := map[string]Status{
		"MXL_STATUS_OK": StatusOK, "MXL_ERR_UNKNOWN": ErrUnknown, "MXL_ERR_FLOW_NOT_FOUND": ErrFlowNotFound,
		"MXL_ERR_OUT_OF_RANGE_TOO_LATE": ErrTooLate, "MXL_ERR_OUT_OF_RANGE_TOO_EARLY": ErrTooEarly,
		"MXL_ERR_INVALID_FLOW_READER": ErrInvalidFlowReader, "MXL_ERR_INVALID_FLOW_WRITER": ErrInvalidFlowWriter,
		"MXL_ERR_TIMEOUT": ErrTimeout, "MXL_ERR_INVALID_ARG": ErrInvalidArgument, "MXL_ERR_CONFLICT": ErrConflict,
		"MXL_ERR_PERMISSION_DENIED": ErrPermissionDenied, "MXL_ERR_FLOW_INVALID": ErrFlowInvalid,
		"MXL_ERR_STRLEN": ErrStringLength, "MXL_ERR_INTERRUPTED": ErrInterrupted, "MXL_ERR_NO_FABRIC": ErrNoFabric,
		"MXL_ERR_INVALID_STATE": ErrInvalidState, "MXL_ERR_INTERNAL": ErrInternal, "MXL_ERR_NOT_READY": ErrNotReady,
		"MXL_ERR_NOT_FOUND": ErrNotFound, "MXL_ERR_EXISTS": ErrExists,
		"MXL_ERR_UNSUPPORTED_OPERATION": ErrUnsupportedOperation,
	}
	if len(ours) != len(f.Status) {
		t.Errorf("%d codes, want %d", len(ours), len(f.Status))
	}
	for name, want := range f.Status {
		if got, ok := ours[name]; !ok || int(got) != want || statusText(got) == "" {
			t.Errorf("%s is %d (%v), want %d", name, got, got, want)
		}
	}
	for name, want := range f.Format {
		word := strings.ToLower(strings.TrimPrefix(name, "MXL_DATA_FORMAT_"))
		if got := Format(want).String(); got != word && word != "unspecified" {
			t.Errorf("format %d is %q, want %q", want, got, word)
		}
	}
	if int(HostMemory) != f.Location["MXL_PAYLOAD_LOCATION_HOST_MEMORY"] ||
		int(DeviceMemory) != f.Location["MXL_PAYLOAD_LOCATION_DEVICE_MEMORY"] {
		t.Error("payload locations differ")
	}
	if Status(4711).Error() != "mxl: status 4711" {
		t.Error(Status(4711))
	}
}

func TestLayoutVectors(t *testing.T) {
	type structure struct {
		Sizeof int
		Fields map[string]struct{ Offset, Size int }
	}
	var raw map[string]json.RawMessage
	readJSON(t, filepath.Join(fixtures, "layout.json"), &raw)
	get := func(name string) (s structure) {
		if err := json.Unmarshal(raw[name], &s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	check := func(name string, base int, want map[string]int) {
		t.Helper()
		s := get(name)
		for field, off := range want {
			f, ok := s.Fields[field]
			if !ok || base+f.Offset != off {
				t.Errorf("%s.%s at %d, want %d (known %v)", name, field, off, base+f.Offset, ok)
			}
		}
	}
	info := get("mxlFlowInfo")
	config := info.Fields["config"].Offset
	check("mxlFlowInfo", 0, map[string]int{"version": offVersion, "size": offSize})
	check("mxlCommonFlowConfigInfo", config, map[string]int{
		"id": offID, "format": offFormat, "flags": offFlags, "grainRate": offRateNum,
		"maxCommitBatchSizeHint": offCommitHint, "maxSyncBatchSizeHint": offSyncHint,
		"payloadLocation": offLocation, "deviceIndex": offDevice,
	})
	class := config + get("mxlFlowConfigInfo").Fields["discrete"].Offset
	check("mxlDiscreteFlowConfigInfo", class, map[string]int{"sliceSizes": offSliceSizes, "grainCount": offGrainCount})
	check("mxlContinuousFlowConfigInfo", class, map[string]int{"channelCount": offChannelCount, "bufferLength": offBufferLength})
	check("mxlFlowRuntimeInfo", info.Fields["runtime"].Offset, map[string]int{
		"headIndex": offHeadIndex, "lastWriteTime": offLastWrite, "lastReadTime": offLastRead,
	})
	check("mxlRational", offRateNum, map[string]int{"numerator": offRateNum, "denominator": offRateDen})
	check("FlowState", info.Sizeof, map[string]int{"inode": offInode, "syncCounter": offSyncCounter})
	check("mxlGrainInfo", 0, map[string]int{
		"version": offVersion, "size": offSize, "index": offGrainIndex, "flags": offGrainFlags,
		"grainSize": offGrainSize, "totalSlices": offGrainSlices, "validSlices": offGrainSlices + 2,
		"reserved": grainFieldsEnd,
	})
	if info.Sizeof != flowInfoSize || get("Flow").Sizeof != dataFileSize || get("mxlGrainInfo").Sizeof != grainInfoSize ||
		get("GrainHeader").Sizeof != PayloadOffset {
		t.Error("sizes differ")
	}
	var constants map[string]int
	if err := json.Unmarshal(raw["constants"], &constants); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"FLOW_DATA_VERSION": dataVersion, "GRAIN_HEADER_VERSION": grainVersion, "MXL_GRAIN_PAYLOAD_OFFSET": PayloadOffset,
		"MXL_DATA_FORMAT_GRAIN_SIZE": ancillarySlices, "MXL_GRAIN_FLAG_INVALID": int(GrainInvalid),
		"MXL_MAX_PLANES_PER_GRAIN": len(FlowInfo{}.SliceSizes),
	} {
		if constants[name] != want {
			t.Errorf("%s is %d, want %d", name, want, constants[name])
		}
	}
}

func TestRingDepthVectors(t *testing.T) {
	var f struct {
		Flows []struct {
			Kind                                         string
			Rate                                         [2]int64
			Interlaced                                   bool
			BitDepth                                     int
			HistoryDurationNs                            *uint64
			FlowOptions                                  *string
			Status                                       string
			GrainRate                                    [2]int64
			MaxCommitBatchSizeHint, MaxSyncBatchSizeHint uint32
			GrainCount, BufferLength, ChannelCount       uint32
			MaxWriteLength                               uint32
			SliceSizes                                   [4]uint32
			MediaFileBytes                               int64
		}
	}
	readJSON(t, filepath.Join(fixtures, "ring-depth.json"), &f)
	if len(f.Flows) < 200 {
		t.Fatalf("%d flows", len(f.Flows))
	}
	for i, x := range f.Flows {
		rate := set("grain_rate", object{"numerator": x.Rate[0], "denominator": x.Rate[1]})
		var text []byte
		switch x.Kind {
		case "v210", "v210a":
			text = videoDef(192, 108, 1, 1, rate, set("media_type", "video/"+x.Kind), func(o object) {
				if x.Interlaced {
					o["interlace_mode"] = InterlacedTFF
				}
			})
		case "data":
			text = dataDef(1, 1, rate)
		case "audio":
			text = audioDef(2, 1, set("bit_depth", x.BitDepth),
				set("sample_rate", object{"numerator": x.Rate[0], "denominator": x.Rate[1]}))
		default:
			t.Fatal(x.Kind)
		}
		history := uint64(DefaultHistoryNS)
		if x.HistoryDurationNs != nil {
			history = *x.HistoryDurationNs
		}
		var opt FlowOptions
		def, err := ParseFlowDef(text)
		if err == nil && x.FlowOptions != nil {
			opt, err = ParseFlowOptions([]byte(*x.FlowOptions))
		}
		var info FlowInfo
		if err == nil {
			info, err = newFlowInfo(def, opt, history)
		}
		if x.Status != "MXL_STATUS_OK" || x.BufferLength == 0 && x.GrainCount == 0 {
			// A ring of no grains, which the SDK makes, is refused here (MXL format reference §15).
			if !errors.Is(err, ErrInvalidArgument) {
				t.Errorf("flow %d %+v: %v, want refused", i, x, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("flow %d %+v: %v", i, x, err)
			continue
		}
		bytes := int64(info.GrainCount) * int64(PayloadOffset+def.PayloadSize())
		if def.Format.Continuous() {
			bytes = int64(info.BufferLength) * int64(info.ChannelCount) * int64(def.WordSize())
		}
		if info.GrainCount != x.GrainCount || info.BufferLength != x.BufferLength || info.ChannelCount != x.ChannelCount ||
			info.SliceSizes != x.SliceSizes || info.MaxCommitBatchSizeHint != x.MaxCommitBatchSizeHint ||
			info.MaxSyncBatchSizeHint != x.MaxSyncBatchSizeHint || bytes != x.MediaFileBytes ||
			info.Rate != (Rational{x.GrainRate[0], x.GrainRate[1]}) || info.BufferLength/2 != x.MaxWriteLength {
			t.Errorf("flow %d: %+v with %d bytes, want %+v", i, info, bytes, x)
		}
		if need := RequiredBytes(def, history); need < uint64(bytes) || need > uint64(bytes)+uint64(info.GrainCount+3)*pageSize {
			t.Errorf("flow %d needs %d bytes, estimate %d", i, bytes, need)
		}
	}
}

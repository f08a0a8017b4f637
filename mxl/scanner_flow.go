package mxl

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

const (
	// scanDefinitionLimit is the longest flow_def.json, domain_def.json or options.json that is read, in bytes. Real
	// ones are about 1 KiB. A peer gets definition and options inside the inventory, twice each definition, and takes
	// 8 MiB of it at most (interface reference §1.2): a few of a megabyte would cost every other flow its replication.
	scanDefinitionLimit = 1 << 16
	// scanInspectEvery is how often the ring files of a known flow are looked at again. A new flow, a new inode and a
	// flow with a reason are looked at in every scan.
	scanInspectEvery = 30 * time.Second
	// scanLiveSeconds is how far the head of a live flow may be from TAI (interface reference §11).
	scanLiveSeconds = 5
)

// knownFlow is what the scanner keeps of a flow directory from one scan to the next.
type knownFlow struct {
	record    FlowRecord
	seen      uint64    // scan in which it was found
	firstSeen time.Time // for the quick second look at a flow that is not live yet

	defStamp   scanStamp
	defReason  string
	defMissing bool
	// missingSince is when flow_def.json or data was first not there: a flow that is being deleted is not a fault.
	missingSince time.Time

	ringOf     scanFileID // data file whose ring was inspected
	ringReason string
	ringAt     time.Time
}

// flowFacts is all that decides whether a flow can be replicated.
type flowFacts struct {
	name       string // directory
	id         uuid.UUID
	idReason   string
	def        *FlowDef
	defReason  string // definition missing, unreadable or invalid
	header     []byte // of data, dataFileSize bytes
	headReason string // data missing, short, not a file
	inode      uint64 // of data
	ringReason string // ring files missing or short; "" also when not looked at
}

// flowReason says why a flow cannot be replicated, "" when it can: the first of its faults from the name to the ring.
func flowReason(f flowFacts) string {
	switch {
	case f.idReason != "":
		return f.idReason
	case f.defReason != "":
		return f.defReason
	case f.def.ID != f.id:
		return fmt.Sprintf("flow_def.json is that of flow %s", f.def.ID)
	case f.headReason != "":
		return f.headReason
	}
	h, err := decodeFlowInfo(f.header)
	switch {
	case err != nil:
		return reasonText(err)
	case h.ID != f.id:
		return fmt.Sprintf("data is that of flow %s", h.ID)
	case h.Format != f.def.Format:
		return fmt.Sprintf("data holds format %s, flow_def.json says %s", h.Format, f.def.Format)
	case h.Rate.Reduced() != f.def.Rate.Reduced():
		return fmt.Sprintf("data holds rate %s, flow_def.json says %s", h.Rate, f.def.Rate)
	case h.PayloadLocation != HostMemory:
		return fmt.Sprintf("payload is not in host memory (location %d, device %d)", h.PayloadLocation, h.DeviceIndex)
	case h.Format.Discrete() && h.SliceSizes != f.def.SliceSizes():
		return fmt.Sprintf("data holds slices of %v bytes, flow_def.json gives %v", h.SliceSizes, f.def.SliceSizes())
	case h.Format.Continuous() && int64(h.ChannelCount) != int64(f.def.ChannelCount):
		return fmt.Sprintf("data holds %d channels, flow_def.json says %d", h.ChannelCount, f.def.ChannelCount)
	case h.StoredInode != f.inode:
		// Every reader of a byte copy is told FLOW_INVALID (MXL format reference §12).
		return fmt.Sprintf("data says inode %d but is inode %d: a copied flow", h.StoredInode, f.inode)
	}
	return f.ringReason
}

// headLive says whether a head is within 5 s of now (TAI ns) at a rate. 0 and 2^64-1 are no heads.
func headLive(head uint64, rate Rational, now uint64) bool {
	if head == 0 || head == UndefinedIndex || !rate.Valid() {
		return false
	}
	due := rate.IndexAt(now)
	if due == UndefinedIndex {
		return false
	}
	distance := due - head
	if head > due {
		distance = head - due
	}
	return float64(distance) <= scanLiveSeconds*rate.Float()
}

// flowDirID parses the name of a flow directory: only the canonical form is found by a reader that knows the id.
func flowDirID(name string) (uuid.UUID, string) {
	stem := strings.TrimSuffix(name, FlowSuffix)
	id, err := uuid.Parse(stem)
	if err != nil {
		return uuid.Nil, fmt.Sprintf("%q is not a flow id", stem)
	}
	if id.String() != stem {
		return uuid.Nil, fmt.Sprintf("%q is not the canonical form of flow id %s", stem, id)
	}
	return id, ""
}

// flowScan examines flow directories of one domain.
type flowScan struct {
	root    *scanRoot
	path    string // of the root
	domain  string // directory of the domain
	fd      int    // of the domain
	history uint64 // ns
	tai     uint64
	now     time.Time
	pause   func() // between two looks at a lock that may be a prober's
}

// examine brings k, which may be new, up to date. An error is about this process (scanTransient): k stays as it was.
func (s *flowScan) examine(name string, k *knownFlow) error {
	facts := flowFacts{name: name}
	facts.id, facts.idReason = flowDirID(name)
	rec := FlowRecord{ID: facts.id, Directory: name, Definition: k.record.Definition, Def: k.record.Def}
	flow := filepath.Join(s.domain, name)

	if err := s.definition(flow, k, &rec); err != nil {
		return err
	}
	facts.def, facts.defReason = rec.Def, k.defReason
	data, err := s.data(flow, k.record.Active, k.record.HeadIndex)
	if scanTransient(err) {
		return err
	}
	if err != nil {
		facts.headReason = "data: " + reasonText(err)
	}
	if missing := errors.Is(err, unix.ENOENT) || k.defMissing; !missing {
		k.missingSince = time.Time{}
	} else if k.missingSince.IsZero() {
		k.missingSince = s.now
	}
	facts.header, facts.inode = data.header, data.id.inode
	rec.Active, rec.Device, rec.Inode = data.active, data.id.device, data.id.inode

	if flowReason(facts) == "" {
		if k.ringOf != data.id || k.ringReason != "" || s.now.Sub(k.ringAt) >= scanInspectEvery {
			if _, err := InspectFlow(filepath.Join(s.path, flow)); scanTransient(err) {
				return err
			} else if k.ringReason = ""; err != nil {
				k.ringReason = reasonText(err)
			}
			k.ringOf, k.ringAt = data.id, s.now
		}
		facts.ringReason = k.ringReason
	}
	rec.Reason = flowReason(facts)
	fillRecord(&rec, data.header, s.history, s.tai)
	k.record = rec
	return nil
}

// definition reads flow_def.json when it changed.
func (s *flowScan) definition(flow string, k *knownFlow, rec *FlowRecord) error {
	var st unix.Stat_t
	name := filepath.Join(rec.Directory, nameFlowDef)
	if err := unix.Fstatat(s.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && scanStampOf(&st) == k.defStamp {
		return nil
	}
	text, stamp, err := s.root.read(filepath.Join(flow, nameFlowDef), scanDefinitionLimit)
	if scanTransient(err) {
		return err
	}
	k.defStamp, k.defReason, k.defMissing, rec.Definition, rec.Def = stamp, "", errors.Is(err, unix.ENOENT), nil, nil
	if err != nil {
		k.defReason = "flow_def.json: " + reasonText(err)
		return nil
	}
	rec.Definition = text
	if rec.Def, err = ParseFlowDef(text); err != nil {
		rec.Def, k.defReason = nil, "flow_def.json: "+reasonText(err)
	}
	return nil
}

// flowData is what the data file of a flow says.
type flowData struct {
	header []byte // nil unless whole
	id     scanFileID
	active bool
}

// data reads the header and asks for the lock. wasActive and head are those of the scan before.
func (s *flowScan) data(flow string, wasActive bool, head uint64) (flowData, error) {
	var d flowData
	fd, err := s.root.open(filepath.Join(flow, nameData), unix.O_RDONLY)
	if err != nil {
		return d, scanPlain(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return d, err
	}
	d.id = scanFileID{uint64(st.Dev), st.Ino}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return d, errScanNotRegular
	}
	if d.active, err = s.held(fd); err != nil {
		return d, fmt.Errorf("flock: %w", err)
	}
	b := make([]byte, dataFileSize)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return d, err
	}
	if n < dataFileSize {
		return d, fmt.Errorf("%d bytes, want %d", st.Size, dataFileSize)
	}
	d.header = b
	for range 3 {
		// Another scanner or a collector may hold the lock for microseconds just now. Whoever moved the head is a writer.
		if !d.active || wasActive || le.Uint64(b[offHeadIndex:]) != head {
			break
		}
		s.pause()
		if d.active, err = s.held(fd); err != nil {
			return d, fmt.Errorf("flock: %w", err)
		}
	}
	return d, nil
}

// held says whether a writer holds the lock of the open data file. The lock taken to find out is given back at once: a
// writer that opens in that instant retries (MXL format reference §11).
func (s *flowScan) held(fd int) (bool, error) {
	for {
		switch err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return false, unix.Flock(fd, unix.LOCK_UN)
		case unix.EWOULDBLOCK:
			return true, nil
		case unix.EINTR:
		default:
			return false, err
		}
	}
}

// fillRecord puts what the definition and the header say into a record; header may be nil.
func fillRecord(rec *FlowRecord, header []byte, history, tai uint64) {
	if d := rec.Def; d != nil {
		rec.Format, rec.MediaType, rec.Rate = d.Format, d.MediaType, d.Rate
		rec.PayloadSize = uint64(d.PayloadSize())
		if d.Format.Continuous() {
			rec.PayloadSize = uint64(d.ChannelCount) * uint64(d.WordSize())
		}
		rec.RingDepth = max(1, d.RingDepth(history))
	}
	if header == nil {
		return
	}
	h, err := decodeFlowInfo(header)
	if err != nil {
		return
	}
	rec.HeadIndex = h.HeadIndex
	rec.Live = rec.Active && headLive(h.HeadIndex, h.Rate, tai)
	if rec.RingDepth = uint64(h.GrainCount); h.Format.Continuous() {
		rec.RingDepth = uint64(h.BufferLength)
	}
}

// reasonText is an error without the path that the record carries anyway.
func reasonText(err error) string {
	var path *fs.PathError
	if errors.As(err, &path) && err == error(path) {
		return path.Err.Error()
	}
	return strings.TrimPrefix(err.Error(), "mxl: ")
}

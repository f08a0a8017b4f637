package mirror

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Reader is a process that maps a file of a mirror.
type Reader struct {
	PID  int    `json:"pid"`
	Comm string `json:"comm"`
}

// FileID identifies a file whatever mount namespace it is seen from.
type FileID struct {
	Dev, Ino uint64
}

// Watched is what a reader check looks for.
type Watched struct {
	Files map[FileID]Key // every file of the mirrors; a file of the domain itself has the nil flow id
	Flows []Key          // the flows the files are of
	Own   []FileID       // files this process maps, one a device; the check must find them in its own maps
	Err   error          // why the list is not complete

	// Alone says whether no process has any of the files open, so that none can
	// have mapped one either; nil or false: that is not known. A check right
	// before a removal asks it once it has found nobody.
	Alone func() bool
}

// ReaderReport is the result of one reader check over all mirrors. It is a
// snapshot and never changed.
type ReaderReport struct {
	At    time.Time     // when it was made; zero: not yet
	Took  time.Duration // how long it took
	Known bool          // every process was seen
	Why   string        // why not

	mapped map[Key][]Reader
	looked map[Key]bool
}

// Flow gives the readers of one flow, by pid.
func (r *ReaderReport) Flow(k Key) []Reader { return r.mapped[k] }

// Domain gives the readers of any file of a domain, by pid.
func (r *ReaderReport) Domain(domainID string) []Reader {
	var all []Reader
	for k, readers := range r.mapped {
		if k.DomainID == domainID {
			all = append(all, readers...)
		}
	}
	return sorted(all)
}

// FlowFacts gives what the report says about one flow. A flow that came to be
// after the check is not known to be free.
func (r *ReaderReport) FlowFacts(k Key) ReaderFacts {
	f := ReaderFacts{Known: r.Known && r.looked[k], Why: r.Why, Mapped: r.mapped[k]}
	if r.Known && !f.Known {
		f.Why = "the flow is newer than the last reader check"
	}
	return f
}

// DomainFacts gives what the report says about a domain with these flows.
func (r *ReaderReport) DomainFacts(domainID string, flows []Key) ReaderFacts {
	f := ReaderFacts{Known: r.Known, Why: r.Why, Mapped: r.Domain(domainID)}
	for _, k := range flows {
		if f.Known && !r.looked[k] {
			f.Known, f.Why = false, "flow "+k.FlowID.String()+" is newer than the last reader check"
		}
	}
	if r.At.IsZero() && f.Why == "" {
		f.Why = "no reader check yet"
	}
	return f
}

// sorted orders readers by pid and drops repetitions.
func sorted(readers []Reader) []Reader {
	slices.SortFunc(readers, func(a, b Reader) int { return cmp.Compare(a.PID, b.PID) })
	return slices.CompactFunc(readers, func(a, b Reader) bool { return a.PID == b.PID })
}

// pidList is "12 (ffmpeg), 13 (mxl-info)", for logs and errors.
func pidList(readers []Reader) string {
	var b strings.Builder
	for i, r := range readers {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(strconv.Itoa(r.PID))
		b.WriteString(" (" + r.Comm + ")")
	}
	return b.String()
}

package doctor

// taiNow is the offset between TAI and UTC since 2017, in seconds (IERS
// Bulletin C).
const taiNow = 37

func (e *examination) clock() {
	offset, err := e.sys.TAIOffset()
	remedy := "Let ptp4l/phc2sys or chrony (leapsectz right/UTC) set the kernel's TAI offset, on every host of the mesh."
	switch {
	case err != nil:
		e.found("tai_offset", Warn, remedy, "The kernel's TAI offset cannot be read: %v.", err)
	case offset == 0:
		e.found("tai_offset", Warn, remedy, "The kernel's TAI offset is 0: grain indexes are %d s off those of hosts that have it set.", taiNow)
	case offset != taiNow:
		e.found("tai_offset", Warn, remedy, "The kernel's TAI offset is %d s, it has been %d s since 2017.", offset, taiNow)
	default:
		e.ok("tai_offset", "The kernel's TAI offset is %d s.", offset)
	}
}

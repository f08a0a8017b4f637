package mirror

import "bytes"

// longestMapsLine bounds what the parser keeps of a line that is not complete
// yet: the fields it needs come within the first 100 bytes, only the path is
// longer.
const longestMapsLine = 128

// mapsParser reads the text of /proc/<pid>/maps piece by piece without
// allocating. A line is
//
//	start-end perms offset major:minor inode [path]
//
// with hexadecimal numbers, except the decimal inode (proc_pid_maps(5)). Lines
// that are not of that form are counted.
type mapsParser struct {
	line [longestMapsLine]byte
	kept int
	bad  int
}

// feed calls found for every mapping of a file whose line ends in text. Inode 0
// is memory without a file.
func (p *mapsParser) feed(text []byte, found func(FileID)) {
	for len(text) > 0 {
		end := bytes.IndexByte(text, '\n')
		if end < 0 {
			p.kept += copy(p.line[p.kept:], text)
			return
		}
		line := text[:end]
		if p.kept > 0 {
			p.kept += copy(p.line[p.kept:], line)
			line = p.line[:p.kept]
			p.kept = 0
		}
		p.one(line, found)
		text = text[end+1:]
	}
}

// end takes a last line without a newline and counts it.
func (p *mapsParser) end(found func(FileID)) (bad int) {
	if p.kept > 0 {
		p.one(p.line[:p.kept], found)
	}
	bad = p.bad
	p.kept, p.bad = 0, 0
	return bad
}

func (p *mapsParser) one(line []byte, found func(FileID)) {
	id, ok := parseMapsLine(line)
	switch {
	case !ok:
		p.bad++
	case id.Ino != 0:
		found(id)
	}
}

// parseMapsLine gives device and inode of one line.
func parseMapsLine(line []byte) (FileID, bool) {
	pos := 0
	for range 3 { // address range, permissions, offset
		next := bytes.IndexByte(line[pos:], ' ')
		if next <= 0 {
			return FileID{}, false
		}
		pos += next + 1
	}
	major, pos, ok := number(line, pos, 16, ':')
	if !ok {
		return FileID{}, false
	}
	minor, pos, ok := number(line, pos, 16, ' ')
	if !ok {
		return FileID{}, false
	}
	inode, _, ok := number(line, pos, 10, ' ')
	if !ok || major > 1<<32-1 || minor > 1<<32-1 {
		return FileID{}, false
	}
	return FileID{Dev: deviceNumber(uint32(major), uint32(minor)), Ino: inode}, true
}

// number reads digits from pos up to the byte after or the end of the line,
// and gives the position behind it.
func number(line []byte, pos int, base uint64, after byte) (n uint64, next int, ok bool) {
	start := pos
	for ; pos < len(line) && line[pos] != after; pos++ {
		digit := uint64(99)
		switch c := line[pos]; {
		case c >= '0' && c <= '9':
			digit = uint64(c - '0')
		case c >= 'a' && c <= 'f':
			digit = uint64(c-'a') + 10
		}
		if digit >= base || n > (1<<64-1-digit)/base {
			return 0, pos, false
		}
		n = n*base + digit
	}
	return n, pos + 1, pos > start
}

// deviceNumber is makedev(3), the form in which stat gives a device.
func deviceNumber(major, minor uint32) uint64 {
	return uint64(major&0xfffff000)<<32 | uint64(major&0xfff)<<8 | uint64(minor&0xffffff00)<<12 | uint64(minor&0xff)
}

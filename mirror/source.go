package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// renamedFile is the definition of a domain while its source is rewritten. What a
// crash leaves of it goes with the half-made flows.
const renamedFile = halfMade + definitionFile

// NameSource makes the marker of a mirror domain name another source host, for the
// next start of this agent: until a peer offers the flows again, the marker is all it
// knows of where they come from. Everything else of domain_def.json stays to the byte,
// and so does its time, which is the mirror's age. It is done in one step; changed says
// whether there was something to do. When it fails nothing has changed: [ErrNotMirror],
// [ErrRemoving], [ErrClosed], or what the file system says.
func (r *Room) NameSource(domainID, host string) (changed bool, err error) {
	r.making.Lock()
	defer r.making.Unlock()
	r.mu.Lock()
	closed, busy := r.closed, r.busy[Key{DomainID: domainID}]
	r.mu.Unlock()
	switch {
	case closed:
		return false, ErrClosed
	case busy:
		return false, fmt.Errorf("%w: %s", ErrRemoving, domainID)
	}
	d, err := r.openOwn(Key{DomainID: domainID})
	if err != nil {
		return false, err
	}
	defer d.close()
	if d.marker.SourceHost == host {
		return false, nil
	}
	text, info, err := readBelow(d.dir, definitionFile)
	if err != nil {
		return false, err
	}
	if text, err = withSource(text, host); err != nil {
		return false, fmt.Errorf("%s: %w", d.path, err)
	}
	fd := int(d.dir.Fd())
	if err := unix.Unlinkat(fd, renamedFile, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("%s/%s: %w", d.path, renamedFile, err)
	}
	if err := writeBelow(d.dir, renamedFile, text); err != nil {
		_ = unix.Unlinkat(fd, renamedFile, 0)
		return false, err
	}
	made := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, unix.NsecToTimespec(info.ModTime().UnixNano())}
	err = unix.UtimesNanoAt(fd, renamedFile, made, unix.AT_SYMLINK_NOFOLLOW)
	if err == nil {
		err = unix.Renameat(fd, renamedFile, fd, definitionFile)
	}
	if err != nil {
		_ = unix.Unlinkat(fd, renamedFile, 0)
		return false, fmt.Errorf("%s/%s: %w", d.path, definitionFile, err)
	}
	return true, nil
}

// withSource is a domain_def.json of ours with another source_host_id. Every other
// byte, of members that we do not know too, stays.
func withSource(text []byte, host string) ([]byte, error) {
	before, err := parseMarker(text)
	if err != nil {
		return nil, err
	}
	name, err := json.Marshal(host)
	if err != nil {
		return nil, err
	}
	var out []byte
	end := 0
	marks, err := members(text, markerMember)
	for _, mark := range marks {
		var sources []span
		sources, err = members(text[mark.from:mark.to], "source_host_id")
		for _, s := range sources {
			out = append(append(out, text[end:mark.from+s.from]...), name...)
			end = mark.from + s.to
		}
		if err != nil {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", definitionFile, err)
	}
	out = append(out, text[end:]...)
	after, err := parseMarker(out)
	before.SourceHost = host
	if err != nil || after != before {
		return nil, fmt.Errorf("%s: no source_host_id that could be changed", definitionFile)
	}
	return out, nil
}

// span is where a value is in a text.
type span struct{ from, to int }

// members gives the values of a member of a JSON object; valid JSON may have it twice.
func members(text []byte, name string) ([]span, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.Join(errors.New("not an object"), err)
	}
	var found []span
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		if key == name {
			to := int(dec.InputOffset())
			found = append(found, span{to - len(value), to})
		}
	}
	return found, nil
}

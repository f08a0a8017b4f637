package nmos

import (
	"bytes"
	"encoding/binary"
)

// Instance names may hold dots inside one label ("Registry 10.0.0.1",
// RFC 6763 §4.3). dnsmessage refuses such names, so in the packets that we hand
// to it such a dot is dotInLabel, and in what we send it is a dot again.
const dotInLabel = 0x1e

// hideDots replaces the dots inside labels, in place. What cannot be walked is
// left for the parser to refuse.
func hideDots(packet []byte) { mapLabels(packet, '.', dotInLabel) }

// showDots undoes hideDots.
func showDots(packet []byte) { mapLabels(packet, dotInLabel, '.') }

func mapLabels(packet []byte, from, to byte) {
	const (
		headerLength = 12 // RFC 1035 §4.1.1
		typePTR      = 12
		typeSRV      = 33
	)
	if len(packet) < headerLength {
		return
	}
	at, ok := headerLength, true
	for range binary.BigEndian.Uint16(packet[4:]) {
		if at, ok = mapName(packet, at, from, to); !ok {
			return
		}
		at += 4 // type, class
	}
	records := 0
	for i := 6; i < headerLength; i += 2 {
		records += int(binary.BigEndian.Uint16(packet[i:]))
	}
	for range records {
		if at, ok = mapName(packet, at, from, to); !ok || at+10 > len(packet) {
			return
		}
		kind := binary.BigEndian.Uint16(packet[at:])
		end := at + 10 + int(binary.BigEndian.Uint16(packet[at+8:]))
		at += 10
		if end > len(packet) {
			return
		}
		switch kind {
		case typePTR:
			mapName(packet[:end], at, from, to)
		case typeSRV:
			mapName(packet[:end], at+6, from, to) // priority, weight, port
		}
		at = end
	}
}

// mapName walks one name up to its end or its compression pointer; what a
// pointer leads to was walked before.
func mapName(packet []byte, at int, from, to byte) (end int, ok bool) {
	for at < len(packet) {
		length := int(packet[at])
		switch {
		case length == 0:
			return at + 1, true
		case length >= 0xc0:
			return at + 2, at+2 <= len(packet)
		case length >= 0x40 || at+1+length > len(packet):
			return 0, false
		}
		label := packet[at+1 : at+1+length]
		for i := bytes.IndexByte(label, from); i >= 0; i = bytes.IndexByte(label, from) {
			label[i] = to
		}
		at += 1 + length
	}
	return 0, false
}

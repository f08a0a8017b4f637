package fabrics

import "encoding/binary"

// A signature in the connection data tells a peer of this package from others. It
// is short enough for verbs' 55 bytes; the SDK ignores it (MXL Fabrics reference
// §11.1).
//
//	0 "MXFA" | 4 u8 version | 5 u8 receives | 6 u64 instance, little-endian | 14 secret | 30 u8 rounds
//
// instance is the same for every connection of one source lane: a target replaces
// a connection that the same lane opens again. The secret is the one of the target's
// TargetInfo; rounds is 1 where immediates may carry a round (grainImmediate). Early
// versions end before either.
const (
	signatureLen     = 14
	signatureSecret  = signatureLen + len(secret{})
	signatureRounds  = signatureSecret + 1
	signatureVersion = 1
)

var signatureMagic = [4]byte{'M', 'X', 'F', 'A'}

type signature struct {
	receives uint8 // immediates the sender of the signature takes in flight
	instance uint64
	secret   secret // of the target, from a source
	rounds   bool   // its sender knows rounds in immediates
}

func (s signature) bytes() []byte {
	b := make([]byte, signatureRounds)
	copy(b, signatureMagic[:])
	b[4] = signatureVersion
	b[5] = s.receives
	binary.LittleEndian.PutUint64(b[6:], s.instance)
	copy(b[signatureLen:], s.secret[:])
	if s.rounds {
		b[signatureSecret] = 1
	}
	return b
}

// readSignature finds a signature in connection data. Providers may pad the data.
func readSignature(data []byte) (signature, bool) {
	if len(data) < signatureLen || [4]byte(data) != signatureMagic || data[4] != signatureVersion {
		return signature{}, false
	}
	s := signature{receives: data[5], instance: binary.LittleEndian.Uint64(data[6:])}
	if len(data) >= signatureSecret {
		s.secret = secret(data[signatureLen:signatureSecret])
	}
	s.rounds = len(data) >= signatureRounds && data[signatureSecret] == 1
	return s, true
}

package main

import (
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// media is what is moved.
type media string

const (
	video media = "video" // 1080p50 v210, a grain of 8192 + 5529600 bytes
	audio media = "audio" // 16 channels of float samples at 48 kHz
)

// Rates and steps as raw/measure.h has them.
const (
	commitSamples = 48  // a commit of 1 ms
	entrySamples  = 480 // sync batch, and so the most a transfer carries
	channelCount  = 16
	wordSize      = 4
	grainBytes    = 8192 + 1080*5120
	entryHeader   = 16
)

var (
	grainRate  = mxl.Rational{Numerator: 50, Denominator: 1}
	sampleRate = mxl.Rational{Numerator: 48000, Denominator: 1}
)

func (m media) rate() mxl.Rational {
	if m == audio {
		return sampleRate
	}
	return grainRate
}

// depth is how many messages a lane has in flight towards a target of its own kind
// (fabrics, nativeGrains), and so how many raw has.
func (m media) depth() int {
	if m == audio {
		return 1
	}
	return 4
}

// mode is how messages follow each other.
type mode string

const (
	flat        mode = "flat"         // back to back
	paced       mode = "paced"        // when their index is due
	cadence     mode = "cadence"      // audio over raw: what is due, in transfers spaced as a lane spaces them
	flatCadence mode = "flat-cadence" // audio over raw: full entries spaced so
)

func (m mode) backToBack() bool { return m == flat || m == flatCadence }

// way is what moves them.
type way string

const (
	tcpWay   way = "tcp"
	rawWay   way = "raw"
	freeWay  way = "raw free" // raw, not bound to a lane's audio timing
	lanesWay way = "lanes"
)

// phase is one measurement of a round.
type phase struct {
	media media
	mode  mode
	way   way
	span  time.Duration
}

func (p phase) String() string { return string(p.media) + " " + p.kind() + " " + string(p.way) }

// kind says in words how the phase is paced; the cadence is a way of pacing.
func (p phase) kind() string {
	if p.mode.backToBack() {
		return "back-to-back"
	}
	return "paced"
}

// phases are the measurements of a round: for each medium and pacing the ways in
// turn.
func phases() []phase {
	return []phase{
		{media: video, mode: flat, way: tcpWay},
		{media: video, mode: flat, way: rawWay},
		{media: video, mode: flat, way: lanesWay},
		{media: video, mode: paced, way: tcpWay},
		{media: video, mode: paced, way: rawWay},
		{media: video, mode: paced, way: lanesWay},
		{media: audio, mode: flat, way: tcpWay},
		{media: audio, mode: flat, way: freeWay},
		{media: audio, mode: flatCadence, way: rawWay},
		{media: audio, mode: flat, way: lanesWay},
		{media: audio, mode: paced, way: tcpWay},
		{media: audio, mode: paced, way: freeWay},
		{media: audio, mode: cadence, way: rawWay},
		{media: audio, mode: paced, way: lanesWay},
	}
}

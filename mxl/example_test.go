package mxl_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"
	"os"
	"time"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const video = `{
  "id": "5fbec3b1-1b0f-417d-9059-8b94a47197ed", "label": "camera 1",
  "format": "urn:x-nmos:format:video", "media_type": "video/v210",
  "tags": {"urn:x-nmos:tag:grouphint/v1.0": ["camera 1:video"]},
  "grain_rate": {"numerator": 50, "denominator": 1},
  "frame_width": 1280, "frame_height": 720
}`

const audio = `{
  "id": "b3bb5be7-9fe9-4324-a5bb-4c70e1084449", "label": "camera 1",
  "format": "urn:x-nmos:format:audio", "media_type": "audio/float32",
  "tags": {"urn:x-nmos:tag:grouphint/v1.0": ["camera 1:audio"]},
  "sample_rate": {"numerator": 48000}, "channel_count": 2, "bit_depth": 32
}`

// newDomain makes a domain; real ones are directories on tmpfs.
func newDomain() (*mxl.Domain, func()) {
	dir, err := os.MkdirTemp("", "mxl-example-")
	if err != nil {
		log.Fatal(err)
	}
	domain, err := mxl.OpenDomain(dir)
	if err != nil {
		log.Fatal(err)
	}
	return domain, func() { os.RemoveAll(dir) }
}

func Example_video() {
	domain, cleanup := newDomain()
	defer cleanup()

	writer, created, err := domain.CreateDiscreteWriter([]byte(video), mxl.FlowOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Release()
	fmt.Println("created:", created, "slots:", writer.Depth(), "lines:", writer.TotalSlices())

	reader, err := domain.OpenDiscreteReader(writer.ID())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()

	// The first half of the picture, then the rest.
	index := writer.Rate().IndexAt(mxl.Now())
	payload, err := writer.OpenGrain(index)
	if err != nil {
		log.Fatal(err)
	}
	payload[0] = 42
	if err := writer.Commit(index, 360, 0); err != nil {
		log.Fatal(err)
	}
	_, err = reader.Grain(index, mxl.AllSlices)
	fmt.Println("too early for all lines:", errors.Is(err, mxl.ErrTooEarly))
	if err := writer.Commit(index, 720, 0); err != nil {
		log.Fatal(err)
	}

	grain, err := reader.WaitGrain(index, mxl.AllSlices, time.Second)
	if err != nil {
		log.Fatal(err)
	}
	first := grain.Payload[0]
	fmt.Println("first byte:", first, "intact:", reader.Intact(grain))
	// Output:
	// created: true slots: 10 lines: 720
	// too early for all lines: true
	// first byte: 42 intact: true
}

func Example_audio() {
	domain, cleanup := newDomain()
	defer cleanup()

	writer, _, err := domain.CreateContinuousWriter([]byte(audio), mxl.FlowOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Release()
	reader, err := domain.OpenContinuousReader(writer.ID())
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()

	// 480 samples that end just before head, in every channel.
	const count = 480
	head := writer.Rate().IndexAt(mxl.Now())
	window, err := writer.OpenSamples(head, count)
	if err != nil {
		log.Fatal(err)
	}
	for channel := range writer.ChannelCount() {
		first, second := writer.Segments(window, channel)
		for _, part := range [][]byte{first, second} {
			for i := 0; i < len(part); i += 4 {
				binary.LittleEndian.PutUint32(part[i:], math.Float32bits(0.5))
			}
		}
	}
	if err := writer.Commit(head, count); err != nil {
		log.Fatal(err)
	}

	samples := make([]byte, 2*count*4) // channel after channel
	if err := reader.Read(samples, head, count); err != nil {
		log.Fatal(err)
	}
	fmt.Println(math.Float32frombits(binary.LittleEndian.Uint32(samples[len(samples)-4:])))
	// Output: 0.5
}

func ExampleRational_IndexAt() {
	rate := mxl.Rational{Numerator: 60000, Denominator: 1001}
	index := rate.IndexAt(1_700_000_000_123_456_789)
	fmt.Println(index, rate.TimeOf(index))
	// Output: 101898101906 1700000000131766667
}

func ExampleParseFlowDef() {
	def, err := mxl.ParseFlowDef([]byte(video))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(def.Format, def.Rate, def.PayloadSize(), def.RingDepth(mxl.DefaultHistoryNS))

	_, err = mxl.ParseFlowDef([]byte(`{"id": 7}`))
	fmt.Println(err)
	// Output:
	// video 50/1 2488320 10
	// mxl: flow definition: id 7: is not a string
}

func ExampleDomain_CollectGarbage() {
	domain, cleanup := newDomain()
	defer cleanup()

	writer, _, err := domain.CreateDiscreteWriter([]byte(video), mxl.FlowOptions{})
	if err != nil {
		log.Fatal(err)
	}
	active, err := domain.IsActive(writer.ID())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("active:", active)

	writer.Close() // keeps the files
	removed, err := domain.CollectGarbage()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("removed:", removed)
	// Output:
	// active: true
	// removed: [5fbec3b1-1b0f-417d-9059-8b94a47197ed]
}

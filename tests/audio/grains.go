package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

const grainDef = `{"id":"%s","label":"slices","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["slices:Video"]},
"format":"urn:x-nmos:format:video","parents":[],"media_type":"video/v210","grain_rate":{"numerator":50,"denominator":1},
"frame_width":1920,"frame_height":1080,"interlace_mode":"progressive","colorspace":"BT709","components":[
{"name":"Y","width":1920,"height":1080,"bit_depth":10},{"name":"Cb","width":960,"height":1080,"bit_depth":10},
{"name":"Cr","width":960,"height":1080,"bit_depth":10}]}`

// grains writes 1080p50 in so many commits a grain, spread over its period, and
// measures from the return of the last one to the moment a reader of the mirror, woken
// by its commit, has the whole grain.
func grains(ctx context.Context, root string, duration time.Duration, commits int) ([]time.Duration, error) {
	id := uuid.New()
	origin, err := openDomain(filepath.Join(root, "origin"))
	if err != nil {
		return nil, err
	}
	mirror, err := openDomain(filepath.Join(root, "mirror"))
	if err != nil {
		return nil, err
	}
	w, _, err := origin.CreateDiscreteWriter(fmt.Appendf(nil, grainDef, id), mxl.FlowOptions{})
	if err != nil {
		return nil, err
	}
	defer w.Release()
	index := w.Rate().IndexAt(mxl.Now())
	if err := writeGrain(w, index, 1, 0); err != nil {
		return nil, err
	}
	p, err := openPair(origin, mirror, id, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	r, err := mirror.OpenDiscreteReader(id)
	if err != nil {
		return nil, err
	}
	defer r.Close()

	type arrival struct {
		at  time.Time
		err error
	}
	wanted, arrived := make(chan uint64), make(chan arrival)
	go func() {
		for index := range wanted {
			g, err := r.WaitGrain(index, mxl.AllSlices, 2*time.Second)
			at := time.Now()
			if err == nil {
				err = checkGrain(g, index)
			}
			arrived <- arrival{at, err}
		}
	}()
	defer close(wanted)
	var lags []time.Duration
	for stop := time.Now().Add(duration); time.Now().Before(stop); {
		index = max(index+1, w.Rate().IndexAt(mxl.Now()))
		sleepUntil(w.Rate().TimeOf(index))
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wanted <- index
		if err := writeGrain(w, index, commits, 16*time.Millisecond/time.Duration(commits)); err != nil {
			return nil, err
		}
		committed := time.Now()
		a := <-arrived
		if a.err != nil {
			return nil, fmt.Errorf("grain %d at the mirror: %w", index, a.err)
		}
		lags = append(lags, max(0, a.at.Sub(committed)))
	}
	return lags, nil
}

func sleepUntil(tai uint64) {
	if now := mxl.Now(); now < tai {
		ts := unix.NsecToTimespec(int64(tai - now))
		_ = unix.Nanosleep(&ts, nil) // a signal makes a grain early by little
	}
}

// writeGrain fills a grain slice by slice with what only its index has.
func writeGrain(w *mxl.DiscreteWriter, index uint64, commits int, pause time.Duration) error {
	payload, err := w.OpenGrain(index)
	if err != nil {
		return err
	}
	total := w.TotalSlices()
	line := len(payload) / total
	for n := 1; n <= commits; n++ {
		from, to := (n-1)*total/commits, n*total/commits
		fill(payload[from*line:to*line], index, from*line)
		if err := w.Commit(index, to, 0); err != nil {
			return err
		}
		if n < commits {
			ts := unix.NsecToTimespec(int64(pause))
			_ = unix.Nanosleep(&ts, nil)
		}
	}
	return nil
}

func word(index uint64, at int) uint64 {
	return index*0x9e3779b97f4a7c15 + uint64(at)*0xff51afd7ed558ccd
}

func fill(b []byte, index uint64, at int) {
	for i := 0; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word(index, at+i))
	}
}

func checkGrain(g mxl.Grain, index uint64) error {
	for i := 0; i+8 <= len(g.Payload); i += 8 {
		if got := binary.LittleEndian.Uint64(g.Payload[i:]); got != word(index, i) {
			return fmt.Errorf("byte %d is %#x, want %#x", i, got, word(index, i))
		}
	}
	if g.Invalid() || !g.Complete() {
		return fmt.Errorf("header %+v", g.GrainHeader)
	}
	return nil
}

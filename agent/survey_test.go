package agent

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// countingRoom counts the looks at the disk.
type countingRoom struct {
	surveys, refreshes int
	err                error
}

func (c *countingRoom) Survey() ([]mirror.DomainOnDisk, error) {
	c.surveys++
	if c.err != nil {
		return nil, c.err
	}
	return []mirror.DomainOnDisk{{DomainID: domA}}, nil
}

func (c *countingRoom) Refresh(list []mirror.DomainOnDisk) []mirror.DomainOnDisk {
	c.refreshes++
	return list
}

func TestSurveysAfterOwnDeedsAreFresh(t *testing.T) {
	room := &countingRoom{}
	s := surveys{room: room}
	for i, c := range []struct {
		before            func()
		surveys, refreshs int
	}{
		{func() {}, 1, 0},                            // the first one
		{func() {}, 1, 1},                            // only the heads
		{s.changed, 2, 1},                            // a deed has ended
		{func() {}, 2, 2},                            //
		{func() { s.look() }, 3, 3},                  // another one beside the loop
		{func() { s.changed(); s.look() }, 4, 4},     // which saw the deed
		{func() { s.latest.Store(&survey{}) }, 5, 4}, // one that began before it
	} {
		c.before()
		if list, err := s.now(); err != nil || len(list) != 1 {
			t.Fatalf("%d: %v, %v", i, list, err)
		}
		if room.surveys != c.surveys || room.refreshes != c.refreshs {
			t.Errorf("%d: %d surveys and %d refreshes, want %+v", i, room.surveys, room.refreshes, c)
		}
	}
	if surveyShare*20*time.Microsecond > passEvery {
		t.Error("a host with few mirrors is not looked at in every pass")
	}
}

func TestSurveysThatFailKeepWhatWasSeen(t *testing.T) {
	room := &countingRoom{err: unix.EMFILE}
	s := surveys{room: room}
	if list, err := s.now(); list != nil || !errors.Is(err, unix.EMFILE) {
		t.Errorf("before the first look: %v, %v", list, err)
	}
	room.err = nil
	if list, err := s.now(); len(list) != 1 || err != nil {
		t.Fatalf("%v, %v", list, err)
	}
	room.err = unix.EMFILE
	s.changed()
	if list, err := s.now(); len(list) != 1 || !errors.Is(err, unix.EMFILE) {
		t.Errorf("while it fails: %v, %v", list, err)
	}
}

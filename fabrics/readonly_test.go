package fabrics

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// TestOriginOnAReadOnlyMount: a source that sees the origin through a read-only bind
// mount sends it, follows it when it is made again, and changes nothing.
func TestOriginOnAReadOnlyMount(t *testing.T) {
	p := &pair{testFlow: newFlow(t, videoDef("video/v210", smallVideo, smallKeyed, rate50), 200*time.Millisecond, 200*time.Millisecond)}
	p.w = p.grainWriter(t, p.origin)
	seen := p.origin.Path() + "-seen"
	if err := os.Mkdir(seen, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(p.origin.Path(), seen, "", unix.MS_BIND, ""); err != nil {
		if os.Getuid() == 0 {
			t.Fatal(err)
		}
		t.Skip("bind mounts need root")
	}
	t.Cleanup(func() { _ = unix.Unmount(seen, unix.MNT_DETACH) })
	if err := unix.Mount("", seen, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(seen+"/x", nil, 0o644); !errors.Is(err, unix.EROFS) {
		t.Fatalf("the mount can be written to: %v", err)
	}
	through := *p.testFlow
	var err error
	if through.origin, err = mxl.OpenDomain(seen); err != nil {
		t.Fatal(err)
	}
	p.mirror = p.grainWriter(t, p.testFlow.mirror)
	p.target = openTarget(t, TargetConfig{Discrete: p.mirror, FlowID: p.id})
	p.source = openSource(t, &through)
	if p.r, err = p.testFlow.mirror.OpenDiscreteReader(p.id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.r.Close() })
	connect(t, p.source, "b", p.target)
	writeGrain(t, p.w, 10, 0, p.w.TotalSlices())
	p.arrives(t, 10, mxl.AllSlices)
	if deleted, err := p.w.Release(); err != nil || !deleted {
		t.Fatal(deleted, err)
	}
	p.w = p.grainWriter(t, p.origin)
	for index := uint64(20); ; index++ { // until the source has seen that it is another one
		writeGrain(t, p.w, index, 0, p.w.TotalSlices())
		if _, err := p.r.WaitGrain(index, mxl.AllSlices, 100*time.Millisecond); err == nil {
			p.arrives(t, index, mxl.AllSlices)
			break
		}
		if index == 220 {
			t.Fatalf("the origin that was made again does not arrive: %s", p.describe())
		}
	}
	if st := p.source.Stats(); st.Errors != 0 || st.Reopened == 0 {
		t.Errorf("%s", p.describe())
	}
}

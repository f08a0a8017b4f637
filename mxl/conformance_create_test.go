package mxl

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/uuid"
)

func TestConformance09PublishedComplete(t *testing.T) {
	d := newDomain(t, 40_000_000)
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- func() error {
			seen := 0
			for {
				select {
				case <-stop:
					if seen == 0 {
						return errors.New("the lister never saw a flow")
					}
					return nil
				default:
				}
				ids, err := d.Flows()
				if err != nil {
					return err
				}
				for _, id := range ids {
					seen++
					dir := filepath.Join(d.Path(), FlowDirName(id))
					for _, name := range []string{nameData, nameFlowDef, nameAccess, "grains/data.0", "grains/data.1"} {
						if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
							return err
						}
					}
				}
			}
		}()
	}()
	for range 200 {
		w, _, err := d.CreateDiscreteWriter(dataDef(50, 1), FlowOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestConformance10AccessIsThere(t *testing.T) {
	d := newDomain(t, 0)
	w := newGrainWriter(t, d, dataDef(50, 1))
	path := filepath.Join(w.Dir(), nameAccess)
	if st, err := os.Stat(path); err != nil || st.Size() != 0 {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again, err := d.OpenDiscreteWriter(w.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if _, err := os.Stat(path); err != nil {
		t.Errorf("an opened flow still has no access file, no SDK writer can open it: %v", err)
	}
}

func TestConformance11DefinitionVerbatim(t *testing.T) {
	d := newDomain(t, 0)
	def := append([]byte("\n  \t"), append(dataDef(50, 1, set("x", "é\u2028")), "\n\n"...)...)
	w := newGrainWriter(t, d, def)
	got, err := d.ReadFlowDef(w.ID())
	if err != nil || !bytes.Equal(got, def) {
		t.Errorf("stored %q, %v", got, err)
	}
}

func TestConformance12DifferenceIsReported(t *testing.T) {
	d := newDomain(t, 0)
	id := set("id", uuid.NewString())
	w := newGrainWriter(t, d, videoDef(192, 108, 50, 1, id))
	write(t, w, 5, 9)
	before := dataBytes(t, w.Dir())
	for name, c := range map[string]struct {
		def     []byte
		members string
	}{
		"rate":       {videoDef(192, 108, 25, 1, id), "grain_rate"},
		"height":     {videoDef(192, 110, 50, 1, id), "grainSize, frame_height"},
		"width":      {videoDef(384, 108, 50, 1, id), "sliceSizes, grainSize, frame_width"},
		"media type": {videoDef(192, 108, 50, 1, id, set("media_type", MediaV210A)), "sliceSizes, grainSize, media_type"},
		"format":     {dataDef(50, 1, id), "format"},
	} {
		_, _, err := d.CreateDiscreteWriter(c.def, FlowOptions{})
		var diff *DifferenceError
		if !errors.Is(err, ErrFlowExistsDifferent) || !errors.As(err, &diff) || diff.FlowID != w.ID() {
			t.Fatalf("%s: %v", name, err)
		}
		if got := strings.Join(diff.Members, ", "); !strings.Contains(got, c.members) {
			t.Errorf("%s: differs in %s, want %s", name, got, c.members)
		}
	}
	if _, _, err := d.CreateContinuousWriter(audioDef(2, 48000, id), FlowOptions{}); !errors.Is(err, ErrFlowExistsDifferent) {
		t.Errorf("another class: %v", err)
	}
	if !bytes.Equal(before, dataBytes(t, w.Dir())) {
		t.Error("the existing flow was changed")
	}
	same, created, err := d.CreateDiscreteWriter(videoDef(192, 108, 50, 1, id, set("label", "other"), set("description", "x")),
		FlowOptions{MaxCommitBatchSizeHint: 5})
	if err != nil || created {
		t.Fatalf("another label: created %v, %v", created, err)
	}
	same.Close()
	longer := openDomain(t, d.Path())
	longer.options.historyNS = 400_000_000
	if _, _, err := longer.CreateDiscreteWriter(videoDef(192, 108, 50, 1, id), FlowOptions{}, WithExactDepth()); !errors.Is(err, ErrFlowExistsDifferent) {
		t.Errorf("another depth: %v", err)
	}
	if ids, err := d.Flows(); err != nil || len(ids) != 1 {
		t.Errorf("flows %v, %v", ids, err)
	}
	noLeftovers(t, d)
}

func noLeftovers(t testing.TB, d *Domain) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(d.Path(), tempPrefix+"*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestConformance15FileModes(t *testing.T) {
	for _, umask := range []int{0o022, 0o002} {
		before := syscall.Umask(umask)
		d := newDomain(t, 0)
		w, _, err := d.CreateDiscreteWriter(dataDef(50, 1), FlowOptions{})
		var c *ContinuousWriter
		if err == nil {
			c, _, err = d.CreateContinuousWriter(audioDef(1, 48000), FlowOptions{})
		}
		syscall.Umask(before)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		defer c.Close()
		file, dir := os.FileMode(0o664&^umask), os.FileMode(0o777&^umask)
		for path, want := range map[string]os.FileMode{
			w.Dir(): 0o755, w.Dir() + "/grains": dir, w.Dir() + "/data": file, w.Dir() + "/grains/data.3": file,
			w.Dir() + "/flow_def.json": file, w.Dir() + "/access": file, c.Dir() + "/channels": file, c.Dir(): 0o755,
		} {
			st, err := os.Stat(path)
			if err != nil || st.Mode().Perm() != want {
				t.Errorf("umask %#o: %s is %v, want %v (%v)", umask, path, st.Mode().Perm(), want, err)
			}
		}
	}
	d := newDomain(t, 0)
	w, _, err := d.CreateDiscreteWriter(dataDef(50, 1), FlowOptions{}, WithFileMode(0o640), WithOwner(-1, os.Getgid()))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for path, want := range map[string]os.FileMode{"": 0o750, "grains": 0o750, "data": 0o640, "access": 0o640, "grains/data.0": 0o640} {
		if st, err := os.Stat(filepath.Join(w.Dir(), path)); err != nil || st.Mode().Perm() != want {
			t.Errorf("%q is %v, want %v (%v)", path, st.Mode().Perm(), want, err)
		}
	}
}

package config

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asSaver makes the test binary be a process that saves a configuration in this
// directory until it is killed.
const asSaver = "MXL_CONFIG_TEST_AS_SAVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(asSaver); dir != "" {
		fmt.Fprintln(os.Stderr, saveForever(dir))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// labelSize makes a file that takes the kernel more than one page and moment.
const labelSize = 96 << 10

// numbered is the n-th configuration: everything in it follows from n.
func numbered(n int) string {
	return fmt.Sprintf(`{"MIRROR_GRACE_S":%d,"NMOS_LABEL":%q}`, n, strings.Repeat(string(rune('a'+n%26)), labelSize+n%7))
}

// saveForever changes the configuration again and again, by a patch and by an
// import in turn, and says so after the first time.
func saveForever(dir string) error {
	s, err := Load(Machine{Environ: []string{"STATE_DIR=" + dir, "HOST_ID=x"}})
	if err != nil {
		return err
	}
	for n := int(s.Config().MirrorGrace.Duration()/time.Second) + 1; ; n++ {
		change := s.Merge
		if n%2 == 0 {
			change = s.Import
		}
		if _, err := change([]byte(numbered(n % 80_000))); err != nil {
			return err
		}
		if n%2 == 0 {
			fmt.Println(n)
		}
	}
}

// TestKilledDuringSave kills a process that does nothing but save, at random
// moments: the file is always one whole configuration, and the next process reads
// it and saves again.
func TestKilledDuringSave(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, fileName)
	const kills = 100
	last, inTheMiddle, moved := 0, 0, 0
	for kill := range kills {
		saver := exec.CommandContext(t.Context(), self)
		saver.Env = append(os.Environ(), asSaver+"="+dir)
		saver.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var complaint strings.Builder
		saver.Stderr = &complaint
		said, err := saver.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := saver.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := bufio.NewReader(said).ReadString('\n'); err != nil {
			t.Fatalf("kill %d: it saves nothing: %v %s", kill, err, complaint.String())
		}
		// Every other kill at any moment, the others once a save has begun.
		moment := time.Now().Add(time.Duration(rand.IntN(25_000)) * time.Microsecond)
		if kill%2 == 0 {
			moment = moment.Add(2 * time.Second)
		}
		for saving := false; !saving && time.Now().Before(moment); {
			if kill%2 == 0 {
				_, err := os.Stat(path + ".tmp")
				saving = err == nil
			}
		}
		if err := saver.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = saver.Wait()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("kill %d: %v", kill, err)
		}
		n := wholeDocument(t, text)
		if n <= last {
			t.Fatalf("kill %d: the file has configuration %d, the one before had %d", kill, n, last)
		}
		moved += n - last
		last = n
		if _, err := os.Stat(path + ".tmp"); err == nil {
			inTheMiddle++
		}
	}
	t.Logf("%d kills, %d of them in the middle of a save, among %d saves", kills, inTheMiddle, moved)
	if inTheMiddle == 0 {
		t.Error("no kill hit a save: the test shows nothing")
	}
}

// wholeDocument gives the number of the configuration in a file and fails when the
// file is not exactly one.
func wholeDocument(t *testing.T, text []byte) int {
	t.Helper()
	var got struct {
		Grace int    `json:"MIRROR_GRACE_S"`
		Label string `json:"NMOS_LABEL"`
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("the file of %d bytes is not whole: %v", len(text), err)
	}
	var want struct {
		Label string `json:"NMOS_LABEL"`
	}
	if err := json.Unmarshal([]byte(numbered(got.Grace)), &want); err != nil {
		t.Fatal(err)
	}
	if got.Label != want.Label {
		t.Fatalf("configuration %d has the label of another one (%d bytes)", got.Grace, len(got.Label))
	}
	return got.Grace
}

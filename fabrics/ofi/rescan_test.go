package ofi

import "testing"

func TestCanRescan(t *testing.T) {
	for version, want := range map[uint32]bool{
		1<<16 | 17: false, 1<<16 | 31: false, 2 << 16: false, 2<<16 | 1: false, 2<<16 | 2: true, 2<<16 | 5: true, 3 << 16: true,
	} {
		if got := canRescan(version); got != want {
			t.Errorf("%d.%d: %v", version>>16, version&0xffff, got)
		}
	}
}

// Looking again finds what is there and breaks nothing that is held, whatever
// the version.
func TestRescanFindsLoopback(t *testing.T) {
	held, err := GetInfo(Query{Provider: "tcp", Address: "127.0.0.1", Role: Receiver})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	again, err := GetInfo(Query{Provider: "tcp", Address: "127.0.0.1", Role: Receiver, Rescan: true})
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
	if copied, err := held.WithPort(0); err != nil {
		t.Error(err)
	} else {
		copied.Close()
	}
}

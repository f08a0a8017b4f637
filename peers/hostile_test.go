package peers

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hostileBodies are answers as large as an answer may be whose parts are as small
// as JSON allows: what costs most for every byte.
func hostileBodies() map[string]string {
	fill := func(before, each, after string) string {
		n := (maxAnswer - len(before) - len(after)) / len(each)
		return before + strings.TrimSuffix(strings.Repeat(each, n), ",") + after
	}
	inDomain := `{"domains":[{"domain_id":"d","options":{},"flows":[`
	inFlow := inDomain + `{"flow_id":"` + flowA + `",`
	distinct := func(before, after string) string {
		var b strings.Builder
		b.WriteString(before)
		for i := 0; b.Len() < maxAnswer-len(after)-16; i++ {
			fmt.Fprintf(&b, `"%x":1,`, i)
		}
		b.WriteString(`"z":1` + after)
		return b.String()
	}
	return map[string]string{
		"numbers for domains":         fill(`{"domains":[`, `7,`, `]}`),
		"objects for domains":         fill(`{"domains":[`, `{},`, `]}`),
		"domains without flows":       fill(`{"domains":[`, `{"domain_id":"d"},`, `]}`),
		"numbers for flows":           fill(inDomain, `7,`, `]}]}`),
		"objects for flows":           fill(inDomain, `{},`, `]}]}`),
		"members of the answer":       distinct(`{"domains":[],`, `}`),
		"members of a domain":         distinct(`{"domains":[{"domain_id":"d","options":{},"flows":[],`, `}]}`),
		"members of a flow":           distinct(inFlow, `}]}]}`),
		"members of a definition":     distinct(inFlow+`"flow_def":{`, `}}]}]}`),
		"the same member":             fill(`{`, `"domains":[],`, `"host_id":"b"}`),
		"deep arrays":                 strings.Repeat("[", maxAnswer),
		"deep arrays in a domain":     `{"domains":[{"domain_id":"d","options":` + strings.Repeat("[", 1<<20) + strings.Repeat("]", 1<<20) + `}]}`,
		"a long number":               `{"revision":` + strings.Repeat("9", maxAnswer-32) + `}`,
		"a long boot id":              `{"boot_id":"` + strings.Repeat("b", maxAnswer-32) + `"}`,
		"many providers":              fill(`{"providers":[`, `"",`, `]}`),
		"nothing but white space":     strings.Repeat(" ", maxAnswer),
		"one definition, two texts":   inFlow + `"flow_def":{"a":[` + strings.TrimSuffix(strings.Repeat("0,", maxAnswer/5), ",") + `]},"flow_def_text":"{\"a\":[` + strings.TrimSuffix(strings.Repeat("0,", maxAnswer/5), ",") + ` ]}"}]}]}`,
		"not JSON from the last byte": fill(`{"domains":[`, `{},`, `]`),
	}
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// An answer of a peer, however it is made, costs a small multiple of what its
// largest possible size is, in memory and in time. Numbers for domains cost 4.9 GB
// and half a minute before the records were counted first.
func TestHostileAnswersAreBounded(t *testing.T) {
	const (
		mostBytes = 6 * maxAnswer
		mostTime  = 5 * time.Second // some tenths; the race detector takes ten times that
	)
	parsers := map[string]func(text []byte){
		"inventory":   func(text []byte) { _, _ = ParseInventory(text) },
		"info":        func(text []byte) { _, _ = ParseInfo(text) },
		"replication": func(text []byte) { _, _ = ParseReplicationAnswer(text) },
	}
	elsewhere := []string{"members of the answer", "a long boot id", "many providers", "deep arrays"}
	for name, body := range hostileBodies() {
		if len(body) > maxAnswer {
			t.Fatalf("%s: %d bytes", name, len(body))
		}
		text := []byte(body)
		for what, parse := range parsers {
			if what != "inventory" && !slices.Contains(elsewhere, name) {
				continue
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			began := processorTime()
			parse(text)
			took := processorTime() - began
			runtime.ReadMemStats(&after)
			allocated := after.TotalAlloc - before.TotalAlloc
			t.Logf("%-28s %-12s %4d MiB %6d ms", name, what, allocated>>20, took.Milliseconds())
			if allocated > mostBytes || took > mostTime {
				t.Errorf("%s as %s: %d MiB allocated in %v for %d MiB", name, what, allocated>>20, took, len(text)>>20)
			}
		}
	}
}

// As many flows as an answer has room for are read, and the refusal of more has the
// word that the API shows.
func TestInventoryOfTheLargestSize(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"domains":[{"domain_id":"d","options":{},"flows":[`)
	n := 0
	for ; b.Len() < maxAnswer-1024; n++ {
		if n > 0 {
			b.WriteByte(',')
		}
		id := fmt.Sprintf("00000000-0000-4000-8000-%012x", n)
		fmt.Fprintf(&b, `{"flow_id":%q,"flow_def":{"id":%q,"description":%q}}`, id, id, strings.Repeat("d", 420))
	}
	b.WriteString(`]}]}`)
	inv, err := ParseInventory([]byte(b.String()))
	if err != nil || len(inv.Domains[0].Flows) != n || n < 14_000 {
		t.Fatalf("%d flows: %v", n, err)
	}
	_, err = ParseInventory([]byte(hostileBodies()["objects for flows"]))
	if !errors.Is(err, ErrTooLarge) || err.Error() != "too large" {
		t.Errorf("%v", err)
	}
}

// Definitions and options are as long as a host's own may be.
func TestLongDefinitions(t *testing.T) {
	long := func(n int) string { return `{"x":"` + strings.Repeat("x", n-8) + `"}` }
	record := func(def, options string) string {
		return `{"domains":[{"domain_id":"d","options":` + options + `,"flows":[{"flow_id":"` + flowA + `","flow_def":` + def + `}]},{"domain_id":"e","options":{},"flows":[]}]}`
	}
	for _, c := range []struct{ name, body, want string }{
		{"longest", record(long(maxDefinition), long(maxDefinition)), ""},
		{"a definition too long", record(long(maxDefinition+1), "{}"), "flow record: flow_def of 65537 bytes, more than 65536"},
		{"options too long", record("{}", long(maxDefinition+1)), "domain record: options of 65537 bytes, more than 65536"},
	} {
		inv, err := ParseInventory([]byte(c.body))
		if err != nil || inv.Domain("e") == nil {
			t.Errorf("%s: the other domain is lost: %v", c.name, err)
			continue
		}
		if c.want == "" && (len(inv.Problems) != 0 || inv.Flow("d", flowA) == nil) ||
			c.want != "" && (len(inv.Problems) != 1 || inv.Problems[0].Reason != c.want || inv.Flow("d", flowA) != nil) {
			t.Errorf("%s: %v", c.name, inv.Problems)
		}
	}
}

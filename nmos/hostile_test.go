package nmos

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"
)

// repeated is one resource as large as a document may be, most of it one list.
func repeated(before, after string, element func(i int) string) json.RawMessage {
	var b strings.Builder
	b.WriteString(before)
	for i := 0; b.Len() < responseLimit-len(after)-200; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(element(i))
	}
	b.WriteString(after)
	return json.RawMessage(b.String())
}

// A resource of 8 MiB is kept as what one of ordinary size may be, and read in a
// time that grows with its length. 400,000 hosts of one node were compared with each
// other before.
func TestHostileResourcesAreBounded(t *testing.T) {
	id := `"id":"` + fixtureNode + `"`
	long := strings.Repeat("x", responseLimit-400)
	for name, c := range map[string]struct {
		kind kind
		raw  json.RawMessage
	}{
		"hosts of a node":    {kindNode, repeated(`{`+id+`,"api":{"endpoints":[`, `]}}`, func(i int) string { return fmt.Sprintf(`{"host":"h%d"}`, i) })},
		"services of a node": {kindNode, repeated(`{`+id+`,"services":[`, `]}`, func(int) string { return `{"type":"` + ServiceType + `","href":"x:"}` })},
		"controls of a device": {kindDevice, repeated(`{`+id+`,"node_id":"`+fixtureNode+`","controls":[`, `]}`, func(i int) string {
			return fmt.Sprintf(`{"type":"urn:x-nmos:control:sr-ctrl/v1.2","href":"http://h/%d"}`, i)
		})},
		"bad controls of a device": {kindDevice, repeated(`{`+id+`,"node_id":"`+fixtureNode+`","controls":[`, `]}`, func(int) string {
			return `{"type":"urn:x-nmos:control:sr-ctrl/v1.x","href":""}`
		})},
		"label of a node":     {kindNode, json.RawMessage(`{` + id + `,"label":"` + long + `"}`)},
		"hostname of a node":  {kindNode, json.RawMessage(`{` + id + `,"hostname":"` + long + `","services":[{"type":"` + ServiceType + `","href":"http://h"}]}`)},
		"label of a receiver": {kindReceiver, json.RawMessage(`{` + id + `,"device_id":"` + fixtureNode + `","transport":"` + TransportMXL + `","label":"` + long + `"}`)},
		"href of a node":      {kindNode, json.RawMessage(`{` + id + `,"href":"http://` + long + `"}`)},
	} {
		if len(c.raw) > responseLimit {
			t.Fatalf("%s: %d bytes", name, len(c.raw))
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, notes := parseResource(c.kind, c.raw)
		runtime.ReadMemStats(&after)
		if r.bad || r.id == "" {
			t.Errorf("%s: %v", name, notes)
			continue
		}
		kept := 0
		if n := r.node; n != nil {
			kept += len(n.label) + len(n.hostname) + len(n.hostID) + len(n.control)
			for _, h := range n.hosts {
				kept += len(h)
			}
		}
		if d := r.device; d != nil {
			for _, c := range d.controls {
				kept += len(c.href)
			}
		}
		if r.receiver != nil {
			kept += len(r.receiver.label)
		}
		for _, n := range notes {
			kept += len(n.reason)
		}
		if allocated := after.TotalAlloc - before.TotalAlloc; kept > 64<<10 || allocated > 16*responseLimit {
			t.Errorf("%s: %d bytes are kept, %d MiB allocated", name, kept, allocated>>20)
		}
	}
}

// A registry whose pages never end is left after a bounded number of bytes.
func TestEndlessCollectionIsBounded(t *testing.T) {
	served := 0
	padding := strings.Repeat(" ", responseLimit-600)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served++
		w.Header().Set("X-Paging-Limit", "100")
		w.Header().Set("X-Paging-Until", fmt.Sprintf("%d:0", served))
		w.Header().Set("Link", fmt.Sprintf(`<http://h/x?paging.since=%d:0>; rel="next"`, served))
		fmt.Fprintf(w, `[{"id":"00000000-0000-4000-8000-%012x"}%s]`, served, padding)
	}))
	defer server.Close()
	client := NewHTTPClient()
	defer client.CloseIdleConnections()
	err := newQueryClient(client).pass(t.Context(), server.URL, time.Unix(1, 0)).err
	// On a busy machine a page of 8 MiB does not arrive in time: that ends it too.
	if err == nil || served > maxCollection/len(padding)+1 {
		t.Errorf("%d pages, %v", served, err)
	}
}

// Messages of a subscription do not add without end.
func TestEndlessMessagesAreBounded(t *testing.T) {
	v := newView(time.Second, time.Second, fixtureNode)
	var m message
	for i := range maxEntries + 1000 {
		id := fmt.Sprintf("00000000-0000-4000-8000-%012x", i)
		m.changes = append(m.changes, change{res: resource{id: id, node: &nodeFacts{}}})
	}
	v.applyMessage(m, time.Unix(1, 0))
	if n := len(v.entries[kindNode]); n != maxEntries {
		t.Errorf("%d entries", n)
	}
}

package peers

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestPlainInventoryIsTheSame holds the fast way against the careful one.
func TestPlainInventoryIsTheSame(t *testing.T) {
	head := uint64(7)
	def := `{"id":"7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c11","label":"x"}`
	body, err := json.Marshal(Inventory{HostID: "a", Revision: 3, Domains: []Domain{{ID: "d", Path: "/mxl/d", Options: json.RawMessage(`{"x":1}`), Flows: []Flow{
		{ID: "7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c11", Def: json.RawMessage(def), DefText: strings.ReplaceAll(def, ",", ",\n "), Format: "continuous", MediaType: "audio/float32",
			Active: true, Live: true, GrainRate: Rational{1, 48000}, SampleRate: &Rational{1, 48000}, RingDepth: 9600, PayloadSize: 8, HeadIndex: &head},
		{ID: "7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c12", Def: json.RawMessage(`{}`), Format: "discrete"},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	fast, ok := plainInventory(body)
	if !ok {
		t.Fatal("an inventory without a fault takes the slow way")
	}
	// An unknown type of one member sends the whole document the careful way.
	careful, err := ParseInventory([]byte(strings.Replace(string(body), `"revision":3`, `"revision":3.0`, 1)))
	if err != nil || !reflect.DeepEqual(fast, careful) {
		t.Errorf("fast %+v\ncareful %+v, %v", fast, careful, err)
	}
	if fast.Domains[0].Flows[0].DefText == "" || *fast.Domains[0].Flows[0].HeadIndex != 7 {
		t.Errorf("%+v", fast.Domains[0].Flows[0])
	}
	for _, amiss := range []string{
		`[]`, `{}`, `{"domains":[{"domain_id":"../x","options":{},"flows":[]}]}`, `{"domains":[{"domain_id":"d","options":{},"flows":[{"flow_id":"x","flow_def":{}}]}]}`,
		`{"domains":[{"domain_id":"d","options":{},"flows":[]},{"domain_id":"d","options":{},"flows":[]}]}`,
		`{"domains":[{"domain_id":"d","options":[],"flows":[]}]}`, `{"domains":[{"domain_id":"d","options":{},"flows":[{"flow_id":"7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c11","flow_def":[]}]}]}`,
	} {
		if _, ok := plainInventory([]byte(amiss)); ok {
			t.Errorf("%s passes the fast way", amiss)
		}
	}
}

func BenchmarkParseInventory(b *testing.B) {
	var flows []string
	for i := range 25 {
		id := "7f0d9c52-8a3b-4c7e-b6d1-0e5f4a3b2c" + string(rune('0'+i/10)) + string(rune('0'+i%10))
		def := `{"id":"` + id + `","label":"flow","description":"","tags":{"urn:x-nmos:tag:grouphint/v1.0":["scale:Data"]},"parents":[],"format":"urn:x-nmos:format:data","media_type":"video/smpte291","grain_rate":{"numerator":25,"denominator":1}}`
		text, _ := json.Marshal(def)
		flows = append(flows, `{"flow_id":"`+id+`","flow_def":`+def+`,"flow_def_text":`+string(text)+`,"format":"discrete","media_type":"video/smpte291","active":true,"live":true,"grain_rate":{"numerator":25,"denominator":1},"sample_rate":null,"ring_depth":5,"payload_size":4096,"head_index":44000000000}`)
	}
	body := `{"host_id":"a","revision":1,"domains":[{"domain_id":"d","path":"/mxl/d","options":{},"flows":[` + strings.Join(flows, ",") + `]}]}`
	for name, text := range map[string]string{"plain": body, "careful": strings.Replace(body, `"revision":1`, `"revision":1.0`, 1)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if inv, err := ParseInventory([]byte(text)); err != nil || len(inv.Domains[0].Flows) != 25 {
					b.Fatal(err)
				}
			}
		})
	}
}

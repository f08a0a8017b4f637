package nmosstandin

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// FuzzAPI sends requests of any kind to the three APIs: whatever comes, an answer
// with a status goes back and errors have the error body.
func FuzzAPI(f *testing.F) {
	s, err := Start(Options{NodeExpiry: 1 << 40})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	staged := "/x-nmos/connection/v1.2/single/receivers/" + s.Receivers()[0].ID + "/staged"
	for _, seed := range [][3]string{
		{"POST", registrationBase + "/resource", `{"type":"node","data":{"id":"6c7c9cb6-7445-5ea2-a152-a8c9937d4512","tags":{"a":["b"]}}}`},
		{"POST", registrationBase + "/health/nodes/x", ""},
		{"DELETE", registrationBase + "/resource/nodes/" + s.Nodes()[0].ID, ""},
		{"GET", queryBase + "/receivers?paging.since=0:0&paging.limit=3&transport=" + MXLTransport, ""},
		{"GET", queryBase + "/nodes?query.rql=x", ""},
		{"POST", queryBase + "/subscriptions", `{"max_update_rate_ms":1,"persist":true,"resource_path":"/nodes","params":{"a.b":"c"}}`},
		{"PATCH", staged, `{"master_enable":true,"activation":{"mode":"activate_immediate"},"transport_params":[{"mxl_flow_id":null}]}`},
		{"PATCH", staged, `{"activation":{"mode":"activate_scheduled_relative","requested_time":"9999999999:0"}}`},
		{"GET", "/x-nmos/node/v1.3/self", ""},
		{"PUT", "/control", `{"master_enable":true,"receiver":0}`},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, method, target, body string) {
		if _, err := url.ParseRequestURI(target); err != nil || !strings.HasPrefix(target, "/") {
			t.Skip("no request line")
		}
		if req, err := http.NewRequest(method, "http://localhost"+target, nil); err != nil || req.URL.Host != "localhost" {
			t.Skip("no request line")
		}
		for _, answer := range []endpoint{s.registry.registration, s.registry.query, s.nodes[0].answer} {
			req, err := http.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
			if err != nil {
				t.Skip("no request")
			}
			req.Header.Set("Content-Type", "application/json")
			got := answer(req)
			if got.status < 200 || got.status > 599 {
				t.Errorf("status %d", got.status)
			}
			if e, ok := got.body.(errorBody); got.status >= 400 && (!ok || e.Code != got.status || e.Error == "") {
				t.Errorf("status %d with body %v", got.status, got.body)
			}
		}
		request, err := http.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
		if err != nil || strings.HasPrefix(target, "/registry/") || strings.HasPrefix(target, "/nodes/") {
			return // those end what the next inputs need
		}
		recorder := httptest.NewRecorder()
		s.serveControl(recorder, request)
		if recorder.Code < 200 {
			t.Errorf("control status %d", recorder.Code)
		}
	})
}

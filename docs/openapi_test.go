package docs

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/mxl-stack/mxl-fabrics-agent/agent"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/openapi"
)

func loadOpenAPI(t *testing.T) (*openapi3.T, routers.Router) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(openapi.Document())
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	return doc, router
}

// TestOpenAPIEndpoints holds the document's paths and statuses against the routes
// table and docs/api.md.
func TestOpenAPIEndpoints(t *testing.T) {
	doc, _ := loadOpenAPI(t)
	described := map[string][]string{}
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			var statuses []string
			for status := range operation.Responses.Map() {
				statuses = append(statuses, status)
			}
			slices.Sort(statuses)
			described[method+" "+path] = statuses
		}
	}
	for _, e := range agent.Endpoints() {
		_, path, _ := strings.Cut(e, " ")
		// The page and its files are no API.
		if strings.Contains(e, "...") || !strings.HasPrefix(path, "/api/") && !slices.Contains([]string{"/livez", "/readyz", "/statusz", "/metrics"}, path) {
			continue
		}
		if described[e] == nil {
			t.Errorf("openapi.json lacks %s", e)
		}
	}
	for e := range described {
		if !slices.Contains(agent.Endpoints(), e) {
			t.Errorf("openapi.json describes %s, which is no endpoint", e)
		}
	}
	for _, row := range rows(read(t, "docs/api.md")) {
		statuses, known := described[firstCode(row[0])]
		if !known {
			continue
		}
		for _, s := range strings.Split(row[1], ", ") {
			if !slices.Contains(statuses, s) {
				t.Errorf("%s: openapi.json lacks the status %s", firstCode(row[0]), s)
			}
		}
	}
}

// TestOpenAPIAnswers asks two running agents for everything and holds each answer
// against the document: no member that is not described, none missing.
func TestOpenAPIAnswers(t *testing.T) {
	_, router := loadOpenAPI(t)
	a, b := examplePair(t)
	waitForPass(t, b)
	asked := map[string]bool{}
	for _, c := range []struct {
		method, at, body string
		status           int
	}{
		{"GET", a + "/livez", "", 200},
		{"GET", b + "/readyz", "", 200},
		{"GET", b + "/statusz", "", 200},
		{"GET", b + "/metrics", "", 200},
		{"GET", b + "/api/v1/openapi.json", "", 200},
		{"GET", b + "/api/v1/info", "", 200},
		{"GET", a + "/api/v1/inventory", "", 200},
		{"GET", b + "/api/v1/mirrors", "", 200},
		{"GET", b + "/api/v1/demand", "", 200},
		{"GET", b + "/api/v1/peers", "", 200},
		{"GET", a + "/api/v1/replications", "", 200},
		{"GET", b + "/api/v1/explain/" + exampleDomain + "/" + exampleFlow, "", 200},
		{"GET", a + "/api/v1/explain/" + exampleDomain + "/" + exampleFlow, "", 200},
		{"GET", a + "/api/v1/explain/" + exampleDomain + "/camera", "", 400},
		{"POST", b + "/api/v1/peers/node-a/test", "", 200},
		{"POST", b + "/api/v1/peers/nobody/test", "", 200},
		{"POST", a + "/api/v1/replications", request(exampleDomain), 201},
		{"GET", a + "/api/v1/replications", "", 200},
		{"POST", a + "/api/v1/replications", request("another"), 404},
		{"POST", a + "/api/v1/replications", strings.Replace(request(exampleDomain), "7f0d9c52", "7f0d9c53", 1), 500},
		{"POST", a + "/api/v1/replications", `{"domain_id":"x"}`, 400},
		{"DELETE", a + "/api/v1/replications/none/targets/node-z", "", 404},
		{"POST", b + "/api/v1/mirrors/" + exampleDomain + "/" + exampleFlow + "/rebuild", "", 200},
		{"POST", b + "/api/v1/mirrors/x/y/rebuild", "", 400},
		{"POST", a + "/api/v1/mirrors/x/y/rebuild", "", 403},
		{"POST", b + "/api/v1/mirrors/" + exampleFlow + "/" + exampleFlow + "/rebuild", "", 404},
		{"DELETE", b + "/api/v1/mirrors/none", "", 404},
		{"DELETE", b + "/api/v1/mirrors/" + exampleDomain, "", 0}, // 200, or 409 where the readers cannot be seen
		{"GET", b + "/api/v1/config", "", 200},
		{"GET", b + "/api/v1/config/env", "", 200},
		{"GET", b + "/api/v1/config/export", "", 200},
		{"PUT", b + "/api/v1/config", `{"MIRROR_STALE_MS":3000}`, 200},
		{"PUT", b + "/api/v1/config", `{"MIRROR_STALE_MS":"soon"}`, 400},
		{"POST", b + "/api/v1/config/import", `{"MIRROR_STALE_MS":"3000"}`, 200},
		{"POST", b + "/api/v1/config/import", `[]`, 400},
	} {
		status, operation := hold(t, router, c.method, c.at, c.body)
		asked[operation] = true
		if c.status != 0 && status != c.status {
			t.Errorf("%s %s: status %d, want %d", c.method, c.at, status, c.status)
		}
	}
	// The file was edited by hand, and cannot be used.
	if err := os.WriteFile(setting(t, b, "AGENT_CONFIG_FILE"), []byte(`{"MIRROR_STALE_MS":`), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, _ := hold(t, router, "PUT", b+"/api/v1/config", `{"MIRROR_STALE_MS":3000}`); status != http.StatusConflict {
		t.Errorf("PUT /api/v1/config over an invalid file: status %d", status)
	}
	for _, e := range agent.Endpoints() {
		exempt := strings.HasSuffix(e, "/events") || strings.Contains(e, "...") || !strings.Contains(e, "/api/")
		if !exempt && !asked[e] {
			t.Errorf("no answer of %s was held against the document", e)
		}
	}
}

// setting gives the value of a setting of an agent.
func setting(t *testing.T, at, name string) string {
	t.Helper()
	resp, err := http.Get(at + "/api/v1/config/export")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var all map[string]any
	err = json.NewDecoder(resp.Body).Decode(&all)
	value, ok := all[name].(string)
	if err != nil || !ok {
		t.Fatalf("%s=%v: %v", name, all[name], err)
	}
	return value
}

// request asks for a flow; nobody listens where its target says.
func request(domain string) string {
	return `{"domain_id":"` + domain + `","flow_id":"` + exampleFlow + `","dest_host_id":"node-z",
		"target_info":"{\"addressFormat\":2,\"fabricAddress\":\"AgAACX8AAAEAAAAAAAAAAA==\",\"id\":\"1\",\"provider\":\"tcp\",\"regions\":[` +
		strings.TrimSuffix(strings.Repeat(`{\"addr\":\"0\",\"len\":\"12288\",\"rkey\":\"1\"},`, 10), ",") + `]}"}`
}

// hold makes a request and holds the answer against the document; it gives the
// status and the endpoint.
func hold(t *testing.T, router routers.Router, method, at, body string) (status int, endpoint string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	// The document knows paths only.
	u, err := url.Parse(at)
	if err != nil {
		t.Fatal(err)
	}
	asked := req.Clone(ctx)
	asked.URL, asked.Host = &url.URL{Path: u.Path}, ""
	asked.Body = io.NopCloser(strings.NewReader(body))
	route, parameters, err := router.FindRoute(asked)
	if err != nil {
		t.Fatalf("%s %s: %v", method, at, err)
	}
	err = openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: asked, PathParams: parameters, Route: route},
		Status:                 resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(answer)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
	if err != nil {
		t.Errorf("%s %s, %d %s: %v", method, at, resp.StatusCode, answer[:min(len(answer), 400)], err)
	}
	return resp.StatusCode, method + " " + route.Path
}

// waitForPass waits until an agent is ready.
func waitForPass(t *testing.T, at string) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		resp, err := http.Get(at + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("not ready")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

package nmosstandin

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func fixture(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "fixtures", "nmos", name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// start runs a stand-in with the given options until the test ends.
func start(t *testing.T, o Options) *StandIn {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// answered is a response with its body read.
type answered struct {
	*http.Response
	body []byte
}

func (a answered) decode(t *testing.T, into any) {
	t.Helper()
	if err := json.Unmarshal(a.body, into); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

func do(t *testing.T, method, url string, body any) answered {
	t.Helper()
	a, err := try(t, method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func try(t *testing.T, method, url string, body any) (answered, error) {
	t.Helper()
	var content io.Reader = http.NoBody
	if body != nil {
		text, ok := body.(string)
		if !ok {
			text = string(encode(body))
		}
		content = strings.NewReader(text)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, content)
	if err != nil {
		t.Fatal(err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return answered{}, err
	}
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	return answered{resp, bytes.TrimSpace(read)}, err
}

// eventually polls until the condition holds; the deadline is generous, since
// nothing but the condition ends the wait in a healthy run.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func sample(t *testing.T) map[string]any {
	t.Helper()
	var request struct {
		Data map[string]any `json:"data"`
	}
	fixture(t, "registration/node-post.request.json", &request)
	return request.Data
}

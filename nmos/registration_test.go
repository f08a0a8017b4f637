package nmos

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeRegistry is a Registration API in memory, with times of what it was asked.
type fakeRegistry struct {
	mu       sync.Mutex
	held     bool
	version  Timestamp
	at       string // API version that holds the node
	down     bool   // nothing answers at all
	refuse   int    // answer of every POST /resource
	beat     int    // answer of every heartbeat, 0: as it should be
	log      []string
	beats    []time.Time
	problems []string
}

func (f *fakeRegistry) RoundTrip(r *http.Request) (*http.Response, error) {
	return roundTripper(f.serve).RoundTrip(r)
}

func (f *fakeRegistry) serve(r *http.Request) *http.Response {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return nil
	}
	id := NodeID("node-a")
	where := r.Method + " " + r.URL.Path
	f.log = append(f.log, where)
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		body = string(b)
	}
	switch {
	case where == "POST /x-nmos/registration/v1.3/resource":
		if f.refuse != 0 {
			return answer(f.refuse, `{"code":400,"error":"no","debug":"schema"}`)
		}
		if f.held && f.at != "v1.3" {
			return answer(409, `{}`, "Location", "/x-nmos/registration/"+f.at+"/resource/nodes/"+id)
		}
		_, rest, _ := strings.Cut(body, `"version":"`)
		text, _, _ := strings.Cut(rest, `"`)
		v, err := ParseTimestamp(text)
		if err != nil || !strings.HasPrefix(body, `{"type":"node","data":{`) || r.Header.Get("Content-Type") != "application/json" {
			f.problems = append(f.problems, "bad POST: "+body)
		}
		location := "/x-nmos/registration/v1.3/resource/nodes/" + id
		if f.held && v.Compare(f.version) < 0 {
			return answer(400, `{"code":400,"error":"older","debug":null}`, "Location", location)
		}
		code := 201
		if f.held {
			code = 200
		}
		f.held, f.at, f.version = true, "v1.3", v
		return answer(code, `{}`, "Location", location)
	case where == "POST /x-nmos/registration/v1.3/health/nodes/"+id:
		f.beats = append(f.beats, time.Now())
		if body != "" || r.Header.Get("Content-Type") != "" || r.ContentLength != 0 {
			f.problems = append(f.problems, "heartbeat with a body or type")
		}
		switch {
		case f.beat != 0:
			return answer(f.beat, `{}`)
		case !f.held:
			return answer(404, `{"code":404,"error":"Not Found","debug":null}`)
		}
		return answer(200, `{"health":1796048926}`) // a number, as the AMWA mock sends
	case r.Method == "DELETE" && strings.HasSuffix(r.URL.Path, "/resource/nodes/"+id):
		if !f.held || !strings.Contains(r.URL.Path, "/"+f.at+"/") {
			return answer(404, `{}`)
		}
		f.held = false
		return answer(204, "")
	}
	f.problems = append(f.problems, "unexpected "+where)
	return answer(404, `{}`)
}

func (f *fakeRegistry) set(change func(*fakeRegistry)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeRegistry) requests(method string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.log {
		if strings.HasPrefix(l, method) {
			n++
		}
	}
	return n
}

// register runs a registration against fakes by host name in a bubble.
func register(t *testing.T, node *Node, hosts map[string]*fakeRegistry, urls []string, body func(*Registration)) {
	t.Helper()
	client := &http.Client{Transport: roundTripper(func(r *http.Request) *http.Response {
		return hosts[r.URL.Host].serve(r)
	})}
	r, err := NewRegistration(RegistrationConfig{
		Node: node, Directory: StaticDirectory{Registration: urls}, Client: client,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() { defer close(finished); r.Run(ctx) }()
	synctest.Wait()
	body(r)
	cancel()
	<-finished
	for _, f := range hosts {
		for _, p := range f.problems {
			t.Error(p)
		}
	}
}

func TestRegistrationHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			registeredAt := time.Now()
			if s := r.Status(); !s.Registered || !s.Configured || s.Epoch != 1 || s.Registry != "http://r" {
				t.Fatalf("status after registering: %+v", s)
			}
			time.Sleep(61 * time.Second)
			synctest.Wait()
			last := registeredAt
			for _, b := range f.beats {
				if gap := b.Sub(last); gap < 4500*time.Millisecond || gap > 5500*time.Millisecond {
					t.Errorf("heartbeat gap %v, want 5 s ± 0.5 s", gap)
				}
				last = b
			}
			if len(f.beats) != 12 {
				t.Errorf("%d heartbeats in 61 s, want 12", len(f.beats))
			}
		})
	})
}

func TestRegistrationFirst200DeletesAndPostsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{held: true, at: "v1.3"}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			id := NodeID("node-a")
			want := []string{"POST /x-nmos/registration/v1.3/resource", "DELETE /x-nmos/registration/v1.3/resource/nodes/" + id, "POST /x-nmos/registration/v1.3/resource"}
			if got := strings.Join(f.log, "|"); got != strings.Join(want, "|") {
				t.Errorf("requests %s", got)
			}
			if !r.Status().Registered {
				t.Error("not registered")
			}
		})
	})
}

func TestRegistration404RegistersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			f.set(func(f *fakeRegistry) { f.held = false })
			time.Sleep(6 * time.Second)
			if s := r.Status(); !s.Registered || s.Epoch != 2 {
				t.Errorf("status %+v, want registered anew", s)
			}
			if n := f.requests("DELETE"); n != 0 {
				t.Errorf("%d DELETEs on a heartbeat's 404", n)
			}
		})
	})
}

func TestRegistration409(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{held: true, at: "v1.2"}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			if s := r.Status(); !s.Registered || f.at != "v1.3" {
				t.Errorf("status %+v, held at %s", s, f.at)
			}
		})
	})
}

func TestRegistrationClockWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{held: true, at: "v1.3", version: TimestampAt(time.Now().Add(time.Hour))}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			if !r.Status().Registered {
				t.Errorf("status %+v: a newer version from an earlier run keeps us out", r.Status())
			}
		})
	})
}

func TestRegistrationRefusedBodyIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := testNode(t)
		f := &fakeRegistry{refuse: 400}
		register(t, node, map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			time.Sleep(50 * time.Second)
			if n := f.requests("POST"); n != 1 {
				t.Errorf("%d POSTs of a refused body in 50 s, want 1", n)
			}
			if s := r.Status(); s.Registered || !strings.Contains(s.LastError, "schema") {
				t.Errorf("status %+v, want the registry's reason", s)
			}
			f.set(func(f *fakeRegistry) { f.refuse = 0 })
			cfg := node.cfg
			cfg.Label = "changed"
			if err := node.Update(cfg); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if !r.Status().Registered {
				t.Error("a changed node was not sent at once")
			}
		})
	})
}

func TestRegistrationOutage(t *testing.T) {
	for name, fail := range map[string]func(*fakeRegistry){
		"500":        func(f *fakeRegistry) { f.beat, f.refuse = 500, 500 },
		"no answer":  func(f *fakeRegistry) { f.down = true },
		"only beats": func(f *fakeRegistry) { f.beat = 503 },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeRegistry{}
				register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
					f.set(fail)
					time.Sleep(8 * time.Second) // a heartbeat and its time-out
					if s := r.Status(); !s.Registered || s.LastError == "" {
						t.Errorf("after 8 s: %+v; the registry holds us for 12 s", s)
					}
					time.Sleep(52 * time.Second)
					if s := r.Status(); s.Registered {
						t.Errorf("after 60 s: %+v", s)
					}
					f.set(func(f *fakeRegistry) { f.down, f.held, f.beat, f.refuse = false, false, 0, 0 }) // restarted empty
					time.Sleep(10 * time.Second)
					if s := r.Status(); !s.Registered || s.LastError != "" || s.Epoch != 2 {
						t.Errorf("10 s after its return: %+v", s)
					}
				})
			})
		})
	}
}

// After a fail-over the first request is a heartbeat, and a 200 to it is all
// that is needed (NMOS reference §4.1, test suite 15, 16).
func TestRegistrationFailOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := &fakeRegistry{}, &fakeRegistry{held: true, at: "v1.3"}
		hosts := map[string]*fakeRegistry{"a": a, "b": b}
		register(t, testNode(t), hosts, []string{"http://a", "http://b"}, func(r *Registration) {
			a.set(func(f *fakeRegistry) { f.down = true })
			time.Sleep(8 * time.Second) // a heartbeat at 5 s, its time-out at 7 s
			if s := r.Status(); s.Registry != "http://b" || !s.Registered {
				t.Errorf("status %+v, want b", s)
			}
			if n := b.requests("POST /x-nmos/registration/v1.3/resource"); n != 0 {
				t.Errorf("%d POSTs of the node at a registry that knows it", n)
			}
		})
	})
}

// The order of priorities holds although a failed entry moves to the end.
func TestRegistrationFailOverInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hosts := map[string]*fakeRegistry{"a": {down: true}, "b": {down: true}, "c": {}, "d": {}}
		b := NewBrowser(BrowserConfig{})
		b.multicast[0] = []browsed{{"a", "http://a", 0}, {"b", "http://b", 1}, {"c", "http://c", 2}, {"d", "http://d", 3}}
		r, err := NewRegistration(RegistrationConfig{
			Node: testNode(t), Directory: b,
			Client: &http.Client{Transport: roundTripper(func(r *http.Request) *http.Response { return hosts[r.URL.Host].serve(r) })},
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		r.Run(ctx)
		if s := r.Status(); s.Registry != "http://c" || !s.Registered {
			t.Errorf("status %+v, want c after a and b timed out", s)
		}
	})
}

func TestRegistrationUpdateIsSentAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := testNode(t)
		f := &fakeRegistry{}
		register(t, node, map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			before := node.Version()
			cfg := node.cfg
			cfg.Label = "new"
			if err := node.Update(cfg); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if f.version.Compare(before) <= 0 {
				t.Errorf("registered version %v, want above %v", f.version, before)
			}
			if n := f.requests("DELETE"); n != 0 {
				t.Errorf("%d DELETEs on an update's 200", n)
			}
		})
	})
}

func TestRegistrationClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			if err := r.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f.held || r.Status().Registered {
				t.Error("the node is still registered")
			}
		})
	})
}

func TestRegistrationCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRegistry{}
		register(t, testNode(t), map[string]*fakeRegistry{"r": f}, []string{"http://r"}, func(r *Registration) {
			f.set(func(f *fakeRegistry) { f.down = true })
			start := time.Now()
			err := r.Close(t.Context())
			if took := time.Since(start); err == nil || took > 1500*time.Millisecond {
				t.Errorf("close: %v after %v", err, took)
			}
		})
	})
}

func TestRegistrationNotStartedCloses(t *testing.T) {
	r, err := NewRegistration(RegistrationConfig{Node: testNode(t), Directory: StaticDirectory{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := r.Status(); s.Configured || s.Registered {
		t.Errorf("status %+v", s)
	}
}

func TestRegistrationForeignLocation(t *testing.T) {
	r, err := NewRegistration(RegistrationConfig{Node: testNode(t), Directory: StaticDirectory{}})
	if err != nil {
		t.Fatal(err)
	}
	id := NodeID("node-a")
	good := "/x-nmos/registration/v1.2/resource/nodes/" + id
	for location, want := range map[string]string{
		good: good, "http://r" + good: good, good + "/": good,
		"": "", "http://other" + good: "", "http://u@r" + good: "",
		"/x-nmos/registration/v1.2/resource/nodes/6c7c9cb6-0000-5ea2-a152-a8c9937d4512": "",
		"/somewhere/resource/nodes/" + id:                                               "", "::": "",
	} {
		got, err := r.locate("http://r", location)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("locate(%q) = %q, %v; want %q", location, got, err, want)
		}
	}
}

func TestRegistrationLogsStatesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logLines
		r, err := NewRegistration(RegistrationConfig{
			Node: testNode(t), Directory: StaticDirectory{Registration: []string{"http://r"}},
			Client: &http.Client{Transport: roundTripper(func(*http.Request) *http.Response { return answer(500, "") })},
			Log:    slog.New(slog.NewJSONHandler(&lines, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		if err := r.Run(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if n := lines.count("nmos_registration_failed"); n != 1 {
			t.Errorf("%d lines about one outage of five minutes", n)
		}
	})
}

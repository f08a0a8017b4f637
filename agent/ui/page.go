// Package ui serves the admin page: the files that `make ui` builds from ui/ and
// that are committed, so that building the agent needs no node.
package ui

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
)

//go:embed dist/index.html dist/assets
var dist embed.FS

// policy lets the page load from this agent and talk to this agent, and lets
// nobody else frame it or send its forms away.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// index is the file of "/" and "/index.html".
const index = "index.html"

// types are the content types of the built files. The table of the system may
// lack them.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".svg":  "image/svg+xml",
	".json": "application/json",
}

// Page is the files of the admin page, ready to be sent.
type Page struct {
	enabled func() bool
	files   map[string]file // by their name below assets/, and index.html
}

type file struct {
	contentType string
	etag        string
	body        []byte
}

// New prepares the page. enabled is asked for every request (WEB_ENABLE).
func New(enabled func() bool) *Page {
	p := &Page{enabled: enabled, files: map[string]file{settingsName: newFile(settingsName, settings())}}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		body, err := dist.ReadFile(name)
		p.files[path.Base(name)] = newFile(name, body)
		return err
	})
	if err != nil {
		panic(fmt.Sprintf("the embedded page cannot be read: %v", err)) // it is in the binary
	}
	return p
}

func newFile(name string, body []byte) file {
	sum := sha256.Sum256(body)
	return file{contentType: types[path.Ext(name)], etag: `"` + hex.EncodeToString(sum[:12]) + `"`, body: body}
}

// Routes are "/", "/index.html" and the files below "/assets/".
func (p *Page) Routes() []httpapi.Route {
	start := func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, index) }
	return []httpapi.Route{
		{Method: http.MethodGet, Path: "/", Handle: start},
		{Method: http.MethodGet, Path: "/index.html", Handle: start},
		{Method: http.MethodGet, Path: "/assets/{name}", Handle: func(w http.ResponseWriter, r *http.Request) {
			name := r.PathValue("name")
			if name == index {
				name = ""
			}
			p.serve(w, r, name)
		}},
	}
}

// serve answers with a file. Its names do not change from version to version, so
// browsers ask every time; what has not changed is a 304 without a body.
func (p *Page) serve(w http.ResponseWriter, r *http.Request, name string) {
	if !p.enabled() {
		httpapi.WriteError(w, http.StatusNotFound, "ui disabled")
		return
	}
	f, ok := p.files[name]
	if !ok {
		httpapi.WriteError(w, http.StatusNotFound, "not found")
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	h.Set("Content-Security-Policy", policy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	if matches(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	httpapi.WriteBody(w, http.StatusOK, f.contentType, f.body)
}

// matches is the weak comparison of RFC 9110 §13.1.2.
func matches(header, etag string) bool {
	for candidate := range strings.SplitSeq(header, ",") {
		candidate = strings.TrimSpace(candidate)
		if candidate == "*" || strings.TrimPrefix(candidate, "W/") == etag {
			return true
		}
	}
	return false
}

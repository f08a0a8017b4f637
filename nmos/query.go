package nmos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	queryPath = "/x-nmos/query/v1.3"
	// pageLimit is the largest page nmos-cpp gives (NMOS reference §12); a
	// server may lower it.
	pageLimit = "100"
	// maxResources bounds a collection, maxPages how long it is read.
	maxResources = 100_000
	maxPages     = 2000
	// maxCollection bounds the pages of a collection together, in bytes: a receiver
	// has about 500.
	maxCollection = 128 << 20
	// passTimeout bounds a whole pass over the three collections.
	passTimeout = 30 * time.Second
)

// pass is one complete reading of the three collections.
type pass struct {
	base    string
	started time.Time
	lists   [kinds][]resource
	notes   []note
	err     error // any collection that could not be read whole fails the pass
}

// queryClient reads collections over REST, all pages. It is used by one
// goroutine.
type queryClient struct {
	http  *http.Client
	forms map[string][kinds]int // per base URL: the first form that was accepted
	pages map[string]parsedPage // per URL: what it held last time
	fresh map[string]parsedPage // filled during a pass, then takes the place of pages
	seed  maphash.Seed
}

// parsedPage lets an unchanged page cost a hash instead of a parse.
type parsedPage struct {
	hash  uint64
	size  int
	items []resource
	notes []note
}

func newQueryClient(c *http.Client) *queryClient {
	return &queryClient{http: c, forms: map[string][kinds]int{}, pages: map[string]parsedPage{}, seed: maphash.MakeSeed()}
}

// forms of the request, best first: a registry that supports neither paging nor
// filters may answer 400 or 501 to them (NMOS reference §6).
func requestForms(k kind) []url.Values {
	paging := url.Values{"paging.order": {"create"}, "paging.since": {"0:0"}, "paging.limit": {pageLimit}}
	if k != kindReceiver {
		return []url.Values{paging, {}}
	}
	both := url.Values{"transport": {TransportMXL}}
	for key, v := range paging {
		both[key] = v
	}
	return []url.Values{both, paging, {"transport": {TransportMXL}}, {}}
}

func (q *queryClient) pass(ctx context.Context, base string, now time.Time) pass {
	ctx, cancel := context.WithTimeout(ctx, passTimeout)
	defer cancel()
	p := pass{base: base, started: now}
	q.fresh = map[string]parsedPage{}
	for k := range kinds {
		var notes []note
		p.lists[k], notes, p.err = q.list(ctx, base, k)
		if p.err != nil {
			return p
		}
		p.notes = append(p.notes, notes...)
	}
	q.pages = q.fresh
	return p
}

// list reads a collection in the first form the registry accepts.
func (q *queryClient) list(ctx context.Context, base string, k kind) ([]resource, []note, error) {
	forms := requestForms(k)
	for at := q.forms[base][k]; ; at++ {
		items, notes, err := q.walk(ctx, base+queryPath+k.path(), forms[at], k)
		code := statusOf(err)
		if refused := code == http.StatusBadRequest || code == http.StatusNotImplemented; refused && at+1 < len(forms) {
			continue
		}
		if err == nil {
			accepted := q.forms[base]
			accepted[k] = at
			q.forms[base] = accepted
		}
		return items, notes, err
	}
}

// walk follows the pages from the oldest to the newest. The next page is built
// from X-Paging-Until, not from Link: a server's idea of its own host need not
// be ours (NMOS reference §6).
func (q *queryClient) walk(ctx context.Context, target string, form url.Values, k kind) ([]resource, []note, error) {
	var (
		items []resource
		notes []note
		seen  = map[string]bool{}
		since Timestamp
		query = url.Values{}
		read  int
	)
	for key, v := range form {
		query[key] = v
	}
	for range maxPages {
		u := target
		if len(query) > 0 {
			u += "?" + query.Encode()
		}
		body, header, err := get(ctx, q.http, u)
		if err != nil {
			return nil, nil, err
		}
		if read += len(body); read > maxCollection {
			return nil, nil, fmt.Errorf("GET %s: more than %d bytes", target, maxCollection)
		}
		page, err := q.parse(u, body, k)
		if err != nil {
			return nil, nil, fmt.Errorf("GET %s: %w", u, err)
		}
		notes = appendNotes(notes, page.notes)
		if len(items)+len(page.items) > maxResources {
			return nil, nil, fmt.Errorf("GET %s: more than %d entries", target, maxResources)
		}
		for _, r := range page.items {
			if r.id == "" || !seen[r.id] {
				seen[r.id] = true
				items = append(items, r)
			}
		}
		if len(page.items) == 0 || !form.Has("paging.since") || header.Get("X-Paging-Limit") == "" {
			return items, notes, nil
		}
		next, ok := nextSince(header)
		if !ok || next.Compare(since) <= 0 {
			return items, notes, nil
		}
		since = next
		query.Set("paging.since", next.String())
	}
	return nil, nil, fmt.Errorf("GET %s: more than %d pages", target, maxPages)
}

func (q *queryClient) parse(u string, body []byte, k kind) (parsedPage, error) {
	hash := maphash.Bytes(q.seed, body)
	if old, ok := q.pages[u]; ok && old.hash == hash && old.size == len(body) {
		q.fresh[u] = old
		return old, nil
	}
	page := parsedPage{hash: hash, size: len(body)}
	var err error
	if page.items, page.notes, err = parseList(k, body); err != nil {
		return parsedPage{}, err
	}
	q.fresh[u] = page
	return page, nil
}

// parseList reads a collection. Only a body that is no JSON array, or one with
// far too many entries, fails.
func parseList(k kind, body []byte) ([]resource, []note, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, nil, fmt.Errorf("not an array: %s", clip(string(body[:min(len(body), 100)])))
	}
	items := []resource{}
	var notes []note
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, nil, fmt.Errorf("entry %d: %w", len(items), err)
		}
		if len(items) >= maxResources {
			return nil, nil, fmt.Errorf("more than %d entries", maxResources)
		}
		r, n := parseResource(k, raw)
		items = append(items, r)
		notes = appendNotes(notes, n)
	}
	if _, err := d.Token(); err != nil { // the closing bracket
		return nil, nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something follows the array")
	}
	return items, notes, nil
}

// appendNotes keeps the first hundreds of what may be millions of bad entries.
func appendNotes(notes, more []note) []note {
	const most = 256
	return append(notes, more[:max(0, min(len(more), most-len(notes)))]...)
}

// nextSince is where the next page starts: X-Paging-Until, else the paging.since
// of the Link with rel="next".
func nextSince(h http.Header) (Timestamp, bool) {
	if until := h.Get("X-Paging-Until"); until != "" {
		t, err := ParseTimestamp(until)
		return t, err == nil
	}
	for _, link := range strings.Split(strings.Join(h.Values("Link"), ","), ",") {
		target, rel, ok := strings.Cut(link, ";")
		if !ok || !strings.Contains(rel, `rel="next"`) {
			continue
		}
		u, err := url.Parse(strings.Trim(strings.TrimSpace(target), "<>"))
		if err != nil {
			continue
		}
		if t, err := ParseTimestamp(u.Query().Get("paging.since")); err == nil {
			return t, true
		}
	}
	return Timestamp{}, false
}

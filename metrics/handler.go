package metrics

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/common/expfmt"
)

// ContentType of the page (agent API reference §2).
const ContentType = "text/plain; version=0.0.4"

// Text renders the whole page.
func (p *Page) Text() ([]byte, error) {
	gathered, err := p.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the metrics: %w", err)
	}
	var page bytes.Buffer
	enc := expfmt.NewEncoder(&page, expfmt.NewFormat(expfmt.TypeTextPlain))
	for _, f := range gathered {
		if err := enc.Encode(f); err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.GetName(), err)
		}
	}
	return page.Bytes(), nil
}

// ServeHTTP answers with the page, never chunked.
func (p *Page) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	page, err := p.Text()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", ContentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(page)))
	// A scraper that went away is its own business.
	_, _ = w.Write(page)
}

package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/prometheus/common/expfmt"
)

// ContentType of the page (agent API reference §2).
const ContentType = "text/plain; version=0.0.4"

// Text renders the whole page, families in byte order of their names.
func (p *Page) Text() ([]byte, error) {
	own := newText()
	p.scrape(own)
	blocks := make(map[string][]byte)
	own.blocks(blocks)

	gathered, err := p.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather the metrics: %w", err)
	}
	for _, f := range gathered {
		var block bytes.Buffer
		if _, err := expfmt.MetricFamilyToText(&block, f); err != nil {
			return nil, fmt.Errorf("encode %s: %w", f.GetName(), err)
		}
		blocks[f.GetName()] = block.Bytes()
	}
	size := 0
	for _, block := range blocks {
		size += len(block)
	}
	page := make([]byte, 0, size)
	for _, name := range slices.Sorted(maps.Keys(blocks)) {
		page = append(page, blocks[name]...)
	}
	return page, nil
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

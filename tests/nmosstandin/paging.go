package nmosstandin

import (
	"fmt"
	"net/url"
	"strconv"
)

// paging is what a client asked for (NMOS reference §6). since is exclusive,
// until inclusive.
type paging struct {
	since, until       stamp
	hasSince, hasUntil bool
	limit              int
	byCreation         bool
}

// page is the part of a list one answer carries, newest first, and the interval
// it covers.
type page struct {
	list         []*resource
	since, until stamp
}

// parsePaging reads the paging keys. A limit above the maximum is lowered
// silently, as nmos-cpp does.
func parsePaging(query url.Values, usual, maximum int) (paging, error) {
	p := paging{limit: usual}
	var err error
	if text := query.Get("paging.since"); text != "" {
		p.hasSince = true
		if p.since, err = parseStamp(text); err != nil {
			return p, fmt.Errorf("paging.since: %w", err)
		}
	}
	if text := query.Get("paging.until"); text != "" {
		p.hasUntil = true
		if p.until, err = parseStamp(text); err != nil {
			return p, fmt.Errorf("paging.until: %w", err)
		}
	}
	if p.hasSince && p.hasUntil && p.since > p.until {
		return p, fmt.Errorf("paging.since %v is later than paging.until %v", p.since, p.until)
	}
	if text := query.Get("paging.limit"); text != "" {
		p.limit, err = strconv.Atoi(text)
		if err != nil || p.limit < 1 {
			return p, fmt.Errorf("paging.limit %q is not a positive number", text)
		}
	}
	p.limit = min(p.limit, maximum)
	switch order := query.Get("paging.order"); order {
	case "", "update":
	case "create":
		p.byCreation = true
	default:
		return p, fmt.Errorf("paging.order %q is neither update nor create", order)
	}
	return p, nil
}

// cut takes one page out of a list sorted oldest first. newest is the latest
// time stamp the registry has given out: the end of an open interval.
func cut(list []*resource, p paging, newest stamp) page {
	until := p.until
	if !p.hasUntil {
		until = max(newest, p.since)
	}
	first := 0
	for first < len(list) && list[first].stamp(p.byCreation) <= p.since {
		first++
	}
	end := first
	for end < len(list) && list[end].stamp(p.byCreation) <= until {
		end++
	}
	result := page{since: p.since, until: until}
	switch {
	case end-first <= p.limit:
	case p.hasSince: // the client walks forward
		end = first + p.limit
		result.until = list[end-1].stamp(p.byCreation)
	default: // the newest page
		first = end - p.limit
		result.since = list[first-1].stamp(p.byCreation)
	}
	for i := end - 1; i >= first; i-- {
		result.list = append(result.list, list[i])
	}
	return result
}

// headers are the paging headers of a page; base is the request's URL without
// query, kept the client's own parameters.
func (pg page) headers(base string, kept url.Values, p paging) map[string]string {
	link := func(rel, key string, at stamp, bounded bool) string {
		q := url.Values{}
		for name, values := range kept {
			if name != "paging.since" && name != "paging.until" {
				q[name] = values
			}
		}
		q.Set("paging.limit", strconv.Itoa(p.limit))
		q.Set("paging.order", map[bool]string{false: "update", true: "create"}[p.byCreation])
		if bounded {
			q.Set(key, at.String())
		}
		return fmt.Sprintf("<%s?%s>; rel=%q", base, q.Encode(), rel)
	}
	return map[string]string{
		"X-Paging-Limit": strconv.Itoa(p.limit),
		"X-Paging-Since": pg.since.String(),
		"X-Paging-Until": pg.until.String(),
		"Link": link("prev", "paging.until", pg.since, true) + ", " +
			link("next", "paging.since", pg.until, true) + ", " +
			link("first", "paging.since", 0, true) + ", " +
			link("last", "", 0, false),
	}
}

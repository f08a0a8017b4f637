package nmosstandin

import (
	"net/url"
	"slices"
	"testing"
)

func TestStamp(t *testing.T) {
	for text, want := range map[string]stamp{"10:5": 10_000_000_005, "0:0": 0, "1796048906:553124744": 1796048906553124744} {
		got, err := parseStamp(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q: %d %v %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "10", "10.5", "10:", ":5", "-1:0", "1:-1", "1:1000000000", "a:b"} {
		if got, err := parseStamp(text); err == nil {
			t.Errorf("%q read as %v", text, got)
		}
	}
}

func TestPages(t *testing.T) {
	var list []*resource
	for i := range 5 { // stamps 10, 20, … 50
		list = append(list, &resource{updated: stamp(10 * (i + 1)), created: stamp(10 * (i + 1))})
	}
	const newest = 60
	for _, tc := range []struct {
		query        string
		want         []stamp
		since, until stamp
	}{
		{"paging.limit=10", []stamp{50, 40, 30, 20, 10}, 0, 60},
		{"paging.limit=2", []stamp{50, 40}, 30, 60},
		{"paging.limit=2&paging.until=0:40", []stamp{40, 30}, 20, 40},
		{"paging.limit=2&paging.until=0:35", []stamp{30, 20}, 10, 35},
		{"paging.limit=2&paging.since=0:0", []stamp{20, 10}, 0, 20},
		{"paging.limit=2&paging.since=0:20", []stamp{40, 30}, 20, 40},
		{"paging.limit=2&paging.since=0:40", []stamp{50}, 40, 60},
		{"paging.limit=2&paging.since=0:60", nil, 60, 60},
		{"paging.limit=2&paging.since=0:99", nil, 99, 99},
		{"paging.limit=2&paging.since=0:10&paging.until=0:30", []stamp{30, 20}, 10, 30},
		{"paging.limit=1&paging.since=0:10&paging.until=0:30", []stamp{20}, 10, 20},
		{"paging.limit=100&paging.order=create", []stamp{50, 40, 30, 20, 10}, 0, 60},
	} {
		query, err := url.ParseQuery(tc.query)
		if err != nil {
			t.Fatal(err)
		}
		limits, err := parsePaging(query, 10, 100)
		if err != nil {
			t.Fatal(err)
		}
		got := cut(list, limits, newest)
		var stamps []stamp
		for _, r := range got.list {
			stamps = append(stamps, r.updated)
		}
		if !slices.Equal(stamps, tc.want) || got.since != tc.since || got.until != tc.until {
			t.Errorf("%s: %v since %v until %v, want %v %v %v", tc.query, stamps, got.since, got.until, tc.want, tc.since, tc.until)
		}
	}
}

func TestPagingLimits(t *testing.T) {
	limits, err := parsePaging(url.Values{"paging.limit": {"5000"}}, 10, 100)
	if err != nil || limits.limit != 100 {
		t.Errorf("limit %d, %v; want it lowered to 100", limits.limit, err)
	}
	for _, query := range []string{"paging.limit=0", "paging.limit=x", "paging.since=1", "paging.until=:", "paging.order=up", "paging.since=2:0&paging.until=1:0"} {
		values, _ := url.ParseQuery(query)
		if _, err := parsePaging(values, 10, 100); err == nil {
			t.Errorf("accepted %s", query)
		}
	}
}

func TestFilter(t *testing.T) {
	var list []map[string]any
	fixture(t, "query/devices.json", &list)
	for query, want := range map[string]bool{
		"":                                       true,
		"node_id=" + list[0]["node_id"].(string): true,
		"node_id=x":                              false,
		"controls.type=urn:x-nmos:control:sr-ctrl/v1.2": true,
		"controls.type=urn:x-nmos:control:sr-ctrl/v9.9": false,
		"controls.authorization=false":                  true,
		"nothing=1":                                     false,
		"label.x=1":                                     false,
		"paging.limit=1&query.downgrade=v1.0":           true,
		"label=mxl-node-a&node_id=x":                    false,
	} {
		values, _ := url.ParseQuery(query)
		f, err := parseFilter(values)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.matches(list[0]); got != want {
			t.Errorf("%q: %v", query, got)
		}
	}
	for _, key := range []string{"query.rql", "query.ancestry_id"} {
		if _, err := parseFilter(url.Values{key: {"x"}}); err == nil {
			t.Errorf("%s not refused", key)
		}
	}
}

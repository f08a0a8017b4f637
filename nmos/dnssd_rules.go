package nmos

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
)

const (
	registerService = "_nmos-register._tcp"
	queryService    = "_nmos-query._tcp"
	peerService     = "_nmos-node._tcp"
)

// browsed is a service that we can use.
type browsed struct {
	name string
	url  string
	pri  int
}

// usable applies the rules of NMOS reference §5: version v1.3 offered, http, no
// authorization. The reason says why not; unfinished instances have neither.
func usable(i instance) (b browsed, reason string, ok bool) {
	if i.host == "" || i.text == nil {
		return browsed{}, "", false
	}
	offers := false
	for v := range strings.SplitSeq(i.text["api_ver"], ",") {
		offers = offers || strings.TrimSpace(v) == "v1.3"
	}
	switch {
	case !offers:
		return browsed{}, fmt.Sprintf("api_ver %q has no v1.3", clip(i.text["api_ver"])), false
	case !strings.EqualFold(i.text["api_proto"], "http"):
		return browsed{}, fmt.Sprintf("api_proto %q is not http", clip(i.text["api_proto"])), false
	case i.text["api_auth"] != "" && !strings.EqualFold(i.text["api_auth"], "false"):
		return browsed{}, fmt.Sprintf("api_auth %q: authorization is not supported", clip(i.text["api_auth"])), false
	case i.port == 0:
		return browsed{}, "port is 0", false
	}
	pri, err := strconv.Atoi(i.text["pri"])
	if err != nil || pri < 0 {
		pri = math.MaxInt // last, behind development systems (100+)
	}
	host := strings.TrimSuffix(i.host, ".")
	if len(i.addrs) > 0 {
		host = i.addrs[0].String()
	} else if strings.HasSuffix(i.host, ".local.") || strings.ContainsAny(host, " /@?#%:[]\\") || host == "" {
		return browsed{}, "", false // its address is asked for
	}
	b = browsed{name: i.name, pri: pri, url: "http://" + net.JoinHostPort(host, strconv.Itoa(int(i.port)))}
	if _, err := checkHref(b.url, "http"); err != nil { // a label may hold any byte
		return browsed{}, err.Error(), false
	}
	return b, "", true
}

// order sorts by pri, 0 first, and mixes equals by a seed that is this process's
// own, so that the choice is random between hosts and steady in one.
func order(list []browsed, seed maphash.Seed) []browsed {
	slices.SortFunc(list, func(a, b browsed) int {
		return cmp.Or(cmp.Compare(a.pri, b.pri), cmp.Compare(maphash.String(seed, a.url), maphash.String(seed, b.url)), cmp.Compare(a.url, b.url))
	})
	return slices.CompactFunc(list, func(a, b browsed) bool { return a.url == b.url })
}

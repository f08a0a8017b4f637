package doctor

import (
	"context"
	"io"
	"net/http"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mxl-stack/mxl-fabrics-agent/fabrics"
	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
	"github.com/mxl-stack/mxl-fabrics-agent/peers"
)

// Host is the system this process runs on.
func Host() *System {
	return &System{
		TAIOffset: mxl.TAIOffset,
		Statfs:    statfs,
		Access: func(path string) error {
			return unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK|unix.X_OK, unix.AT_EACCESS)
		},
		Listen: listen,
		Get:    get,
		Probe:  func(provider string) error { return fabrics.Probe(fabrics.Provider(provider)) },
		Providers: func() (list []string) {
			for _, p := range fabrics.Providers() {
				list = append(list, string(p))
			}
			return list
		},
		Libfabric:  fabrics.Version,
		Interfaces: func() ([]peers.Interface, error) { return peers.ScanInterfaces("/sys") },
		Readers:    readers,
		PathMTU:    pathMTU,
	}
}

// getLimit bounds one request, maxAnswer what is read of its answer.
const (
	getLimit  = 2 * time.Second
	maxAnswer = 1 << 20
)

func get(ctx context.Context, url string) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, getLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, nil, err
	}
	// Everything is on the media network: no proxy of the environment.
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, body, err
}

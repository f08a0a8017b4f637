package peers

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// slowPeer answers /info after a second, with an error.
type slowPeer struct{}

func (slowPeer) Info(context.Context, string) (Info, error) {
	time.Sleep(time.Second)
	return Info{}, errors.New("no")
}

func (slowPeer) Inventory(context.Context, string) (*Inventory, error) { return nil, errors.New("no") }

func (slowPeer) Follow(ctx context.Context, _ string, _ func(Event)) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestPollsAreTimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type poll struct {
			host string
			took time.Duration
			err  error
		}
		polls := make(chan poll, 10)
		table := NewTable(Config{
			HostID: "self", Static: []Static{{HostID: "node-a", ControlURL: "http://192.0.2.1/api/v1"}}, Interval: 2 * time.Second,
			Client: slowPeer{}, Log: slog.New(slog.DiscardHandler),
			Polled: func(host string, took time.Duration, err error) { polls <- poll{host, took, err} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { table.Run(ctx); close(done) }()
		for range 2 {
			if p := <-polls; p.host != "node-a" || p.took != time.Second || p.err == nil {
				t.Errorf("%+v", p)
			}
		}
		cancel()
		<-done
	})
}

package peers

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// feed is one netlink subscription that only says that something changed.
type feed struct {
	changes chan struct{} // capacity 1, closed when the subscription ended
	done    chan struct{}
}

// subscribeLinks reports changes of devices, subscribeAddrs of addresses.
func subscribeLinks() (*feed, error) {
	return subscribe(func(updates chan netlink.LinkUpdate, done <-chan struct{}) error {
		return netlink.LinkSubscribe(updates, done)
	})
}

func subscribeAddrs() (*feed, error) {
	return subscribe(func(updates chan netlink.AddrUpdate, done <-chan struct{}) error {
		return netlink.AddrSubscribe(updates, done)
	})
}

func subscribe[T any](open func(chan T, <-chan struct{}) error) (*feed, error) {
	f := &feed{changes: make(chan struct{}, 1), done: make(chan struct{})}
	updates := make(chan T)
	if err := open(updates, f.done); err != nil {
		close(f.done)
		return nil, fmt.Errorf("subscribe to netlink: %w", err)
	}
	go func() {
		// The library closes updates when the socket fails or done is closed.
		for range updates {
			wake(f.changes)
		}
		close(f.changes)
	}()
	return f, nil
}

// silentFeed stands in for a subscription that is not to be had.
func silentFeed() *feed {
	f := &feed{changes: make(chan struct{}), done: make(chan struct{})}
	go func() {
		<-f.done
		close(f.changes)
	}()
	return f
}

// close ends the subscription and waits for its goroutines.
func (f *feed) close() {
	close(f.done)
	for range f.changes {
	}
}

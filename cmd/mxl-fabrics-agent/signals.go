package main

import (
	"log/slog"
	"os"
	"time"
)

// sayLimit is how long the line about a shutdown that is cut off may take: what holds
// the shutdown up may be the log.
const sayLimit = 200 * time.Millisecond

// endInTime ends the process where an orderly end does not come: at the second signal,
// or when the budget is over after the first. It is in force before anything is called
// that may block and knows no context (libfabric).
func endInTime(signals <-chan os.Signal, budget time.Duration, log *slog.Logger) {
	<-signals
	select {
	case <-signals:
	case <-time.After(budget):
		said := make(chan struct{})
		go func() {
			defer close(said)
			log.Error("shutdown_timeout", "seconds", int(budget/time.Second))
		}()
		select {
		case <-said:
		case <-time.After(sayLimit):
		}
	}
	os.Exit(exitSignal)
}

package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"
)

// runHold maps a flow as a reader does and sleeps: the reader that a mirror's cleanup has to notice.
func runHold(ctx context.Context, args []string, t terminal) error {
	var (
		fs       = flag.NewFlagSet("hold", flag.ContinueOnError)
		wait     = fs.Duration("wait", 10*time.Second, "wait this `long` for the flow")
		duration = fs.Duration("duration", 0, "hold for this `long`; 0: until a signal")
	)
	positional, err := parseArguments(fs, args, t, "hold [options] DOMAIN FLOW-ID")
	if err != nil {
		return err
	}
	path, flow, err := domainAndFlow(positional)
	if err != nil {
		return err
	}
	var ring headCounter
	if err := awaitFlow(ctx, *wait, time.Time{}, func() (err error) { ring, _, err = openFlow(path, flow); return err }); err != nil {
		return err
	}
	defer ring.Close()
	fmt.Fprintf(t.out, "pid %d\nholding %s\n", os.Getpid(), flow)
	if *duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *duration)
		defer cancel()
	}
	<-ctx.Done()
	fmt.Fprintln(t.out, "released")
	return nil
}

package main

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/mxl"
)

// parseArguments parses options before, between and after the positional arguments and returns those.
func parseArguments(fs *flag.FlagSet, args []string, t terminal, synopsis string) ([]string, error) {
	fs.SetOutput(t.err)
	fs.Usage = func() {
		fmt.Fprintf(t.err, "usage: mxl-pattern %s\n\n", synopsis)
		fs.PrintDefaults()
	}
	var positional []string
	for {
		if err := fs.Parse(args); err != nil {
			if err == flag.ErrHelp {
				return nil, err
			}
			return nil, fmt.Errorf("%w: %w", errUsage, err)
		}
		if fs.NArg() == 0 {
			return positional, nil
		}
		positional = append(positional, fs.Arg(0))
		args = fs.Args()[1:]
	}
}

// domainAndFlow are the positional arguments of the reading commands.
func domainAndFlow(positional []string) (domain string, flow uuid.UUID, err error) {
	if len(positional) != 2 {
		return "", uuid.Nil, fmt.Errorf("%w: want DOMAIN and FLOW-ID, got %q", errUsage, positional)
	}
	if flow, err = uuid.Parse(positional[1]); err != nil {
		return "", uuid.Nil, fmt.Errorf("%w: flow id %q: %w", errUsage, positional[1], err)
	}
	return positional[0], flow, nil
}

// rateValue is a rate option such as 50, 50/1 or 60000/1001.
type rateValue mxl.Rational

func (r *rateValue) String() string { return mxl.Rational(*r).String() }

func (r *rateValue) Set(text string) error {
	numerator, denominator, ok := strings.Cut(text, "/")
	if !ok {
		denominator = "1"
	}
	n, err := strconv.ParseInt(numerator, 10, 64)
	if err != nil {
		return err
	}
	d, err := strconv.ParseInt(denominator, 10, 64)
	if err != nil {
		return err
	}
	if n <= 0 || d <= 0 {
		return fmt.Errorf("rate %s is not positive", text)
	}
	*r = rateValue{Numerator: n, Denominator: d}
	return nil
}

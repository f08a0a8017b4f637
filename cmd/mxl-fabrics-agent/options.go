package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

// options of all commands.
type options struct {
	json  bool
	url   string // without a trailing slash
	span  time.Duration
	count int
}

// parse takes options before and after the arguments.
func (c *command) parse(args []string) error {
	fs := flag.NewFlagSet("mxl-fabrics-agent", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.BoolVar(&c.options.json, "json", false, "")
	fs.StringVar(&c.options.url, "url", c.defaultURL(), "")
	fs.DurationVar(&c.options.span, "for", 0, "")
	fs.IntVar(&c.options.count, "count", 0, "")
	for len(args) > 0 {
		if err := fs.Parse(args); err != nil {
			return err
		}
		args = fs.Args()
		if len(args) > 0 {
			c.args, args = append(c.args, args[0]), args[1:]
		}
	}
	if c.options.span < 0 || c.options.count < 0 {
		return errors.New("--for and --count cannot be negative")
	}
	c.options.url = strings.TrimRight(c.options.url, "/")
	u, err := url.Parse(c.options.url)
	if err != nil || u.Scheme != "http" || u.Host == "" {
		return fmt.Errorf("--url %q: must be like http://host:8095", c.options.url)
	}
	c.options.url = strings.TrimSuffix(c.options.url, "/api/v1")
	return nil
}

// defaultURL is the agent on this host.
func (c *command) defaultURL() string {
	port := "8095"
	for _, v := range c.environ {
		if text, ok := strings.CutPrefix(v, "WEB_PORT="); ok && text != "" {
			port = text
		}
	}
	return "http://127.0.0.1:" + port
}

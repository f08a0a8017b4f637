// Command nmos-standin runs an NMOS registry and media nodes with MXL receivers
// for tests and demonstrations. It prints one line of JSON with its addresses
// when everything listens, and ends on SIGTERM or SIGINT.
//
// The control endpoints are described in package nmosstandin.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/mxl-stack/mxl-fabrics-agent/tests/nmosstandin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "nmos-standin:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out, complaints io.Writer) error {
	flags := flag.NewFlagSet("nmos-standin", flag.ContinueOnError)
	flags.SetOutput(complaints)
	var o nmosstandin.Options
	var node nmosstandin.NodeOptions
	flags.StringVar(&o.Host, "host", "127.0.0.1", "listen `address`")
	flags.IntVar(&o.RegistryPort, "registry-port", 0, "Registration API `port`, 0: a free one")
	flags.IntVar(&o.QueryPort, "query-port", 0, "Query API `port`, 0: a free one")
	flags.IntVar(&o.ControlPort, "control-port", 0, "control `port`, 0: a free one")
	flags.StringVar(&o.Registration, "registration", "", "`origin` of another Registration API for the media nodes; default the stand-in's own")
	flags.IntVar(&node.Port, "node-port", 0, "`port` of the first media node, 0: a free one")
	local := flags.Int("nodes", 1, "`number` of media nodes")
	remote := flags.Int("remote-nodes", 0, "`number` of nodes that are registered at 192.0.2.x but do not listen")
	flags.IntVar(&node.Receivers, "receivers", 1, "`number` of receivers of each node")
	ids := flags.String("node-ids", "", "comma `list` of node ids")
	receiverIDs := flags.String("receiver-ids", "", "comma `list` of the first node's receiver ids")
	flags.StringVar(&node.Advertise, "advertise", "", "`host` in the nodes' hrefs, an IP or a DNS name; default the listen address")
	flags.StringVar(&node.OwnDomain, "own-domain", "", "domain `id` that \"auto\" resolves to")
	flags.BoolVar(&node.Slash, "slash", false, "end hrefs with a slash")
	versions := flags.String("connection", "v1.1,v1.2", "comma `list` of IS-05 versions")
	flags.BoolVar(&node.AnyVersion, "any-version", false, "show MXL receivers at every IS-05 version")
	flags.BoolVar(&node.WholeSeconds, "whole-seconds", false, "resource versions without nanoseconds")
	flags.BoolVar(&o.ListSelf, "list-self", true, "list the registry as a node")
	flags.IntVar(&o.PageLimit, "page", 10, "default page `length`")
	flags.DurationVar(&o.NodeExpiry, "node-expiry", 0, "collect nodes without heartbeat after this `time`; default 12s")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.Log = slog.New(slog.NewJSONHandler(complaints, nil))
	node.Connection = list(*versions)
	nodeIDs := list(*ids)
	for i := range *local + *remote {
		n := node
		if i > 0 {
			n.Port = 0
		} else {
			n.ReceiverIDs = list(*receiverIDs)
		}
		if i < len(nodeIDs) {
			n.ID = nodeIDs[i]
		}
		if i >= *local {
			n.Unserved = true
			n.Advertise = fmt.Sprintf("192.0.2.%d", 1+(i-*local)%254)
		}
		o.Nodes = append(o.Nodes, n)
	}
	o.NoNodes = len(o.Nodes) == 0
	standin, err := nmosstandin.Start(o)
	if err != nil {
		return err
	}
	defer standin.Close()
	if err := json.NewEncoder(out).Encode(standin.Addresses()); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func list(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

package main

import (
	"encoding/json"
	"fmt"
	"net/url"
)

// explained is the answer of GET /api/v1/explain/{domain_id}/{flow_id}.
type explained struct {
	HostID   string `json:"host_id"`
	DomainID string `json:"domain_id"`
	FlowID   string `json:"flow_id"`
	Role     string `json:"role"`
	OK       bool   `json:"ok"`
	Broken   string `json:"broken"`
	Summary  string `json:"summary"`
	Steps    []struct {
		Step   string `json:"step"`
		Peer   string `json:"peer"`
		OK     *bool  `json:"ok"`
		What   string `json:"what"`
		Remedy string `json:"remedy"`
	} `json:"steps"`
}

func (c *command) explain() int {
	body, err := c.get("/api/v1/explain/" + url.PathEscape(c.args[0]) + "/" + url.PathEscape(c.args[1]))
	if err != nil {
		return c.failed(err)
	}
	var e explained
	if err := json.Unmarshal(body, &e); err != nil {
		return c.failed(err)
	}
	if c.options.json {
		c.printJSON(body)
	} else {
		c.printExplanation(e)
	}
	switch {
	case e.OK:
		return exitOK
	case e.Broken == "":
		return exitWarning // nobody asks
	}
	return exitBroken
}

func (c *command) printExplanation(e explained) {
	fmt.Fprintf(c.stdout, "flow %s of domain %s, %s is the %s\n\n", e.FlowID, e.DomainID, e.HostID, e.Role)
	for _, s := range e.Steps {
		mark := "-"
		if s.OK != nil {
			mark = map[bool]string{true: "ok", false: "BROKEN"}[*s.OK]
		}
		name := s.Step
		if s.Peer != "" {
			name += " " + s.Peer
		}
		fmt.Fprintf(c.stdout, "%-7s %-12s %s\n", mark, name, s.What)
		if s.Remedy != "" {
			fmt.Fprintf(c.stdout, "%-20s > %s\n", "", s.Remedy)
		}
	}
	fmt.Fprintf(c.stdout, "\n%s\n", e.Summary)
}

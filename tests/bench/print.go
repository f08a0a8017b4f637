package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
)

// print writes the tables: medians, with least and most in brackets.
func (s *summary) print(out io.Writer) {
	titles := map[way]string{tcpWay: "plain TCP", freeWay: "raw, own timing", rawWay: "raw libfabric", lanesWay: "lanes"}
	for _, m := range []media{video, audio} {
		columns := ways
		if m == video {
			columns = []way{tcpWay, rawWay, lanesWay}
			fmt.Fprintf(out, "\n1080p50 v210, %d bytes a message, medians of %v rounds [least, most]\n\n", grainBytes, s.values["rounds"])
		} else {
			fmt.Fprintf(out, "\n16-channel 48 kHz float audio, commits of 1 ms, back to back %d samples a message; lanes and raw\nkeep to a transfer about every 4 ms\n\n", entrySamples)
		}
		t := tabwriter.NewWriter(out, 2, 0, 3, ' ', 0)
		for _, w := range columns {
			fmt.Fprintf(t, "\t%s", titles[w])
		}
		fmt.Fprintf(t, "\tlanes/raw\tlanes/TCP\n")
		for _, what := range metrics {
			fmt.Fprint(t, what.text)
			for _, w := range columns {
				fmt.Fprintf(t, "\t%s", s.cell(string(m)+"_"+what.name+w.suffix()))
			}
			for _, w := range []way{rawWay, tcpWay} {
				text := ""
				if name := ratios[what.name]; name != "" {
					text = s.cell(string(m) + "_" + name + "_vs" + w.suffix())
				}
				fmt.Fprintf(t, "\t%s", text)
			}
			fmt.Fprintln(t)
		}
		_ = t.Flush()
		if o, ok := s.idle[m]; ok {
			fmt.Fprintf(out, "%d idle %s lanes: %s\n", o.lanes, m, o)
		}
	}
	fmt.Fprintf(out, "\n%v CPUs, Linux %v, libfabric %v, %v; load average %v before, %v after; %v measurements not counted\n",
		s.values["cpus"], s.values["kernel"], s.values["libfabric"], s.values["go"], s.values["load_average_before"],
		s.values["load_average_after"], s.values["not_counted"])
}

func (s *summary) cell(key string) string {
	v, ok := s.values[key]
	if !ok {
		return "–"
	}
	return fmt.Sprintf("%.4g [%.3g, %.3g]", v, s.values[key+"_min"], s.values[key+"_max"])
}

// save writes the flat object, keys sorted.
func (s *summary) save(path string) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(s.values); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

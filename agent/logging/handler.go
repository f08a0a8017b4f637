// Package logging writes the agent's log: one JSON object a line on stdout
// (contract; agent API reference §18).
package logging

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	// maxValue and maxLine keep a line whole in the pipes and collectors it
	// passes through.
	maxValue = 4 << 10
	maxLine  = 16 << 10
	timeForm = "2006-01-02T15:04:05.000Z"
)

// Handler is a slog.Handler. A record's message is the event name. Every
// value is a JSON string, as the original writes them.
type Handler struct {
	level  slog.Leveler
	prefix string // of open groups, ending in a dot
	fields []field
	out    *output // shared by all handlers made from one
}

type field struct{ key, value string }

type output struct {
	mu sync.Mutex
	w  io.Writer
}

// NewHandler makes a Handler that writes lines of at least the given level.
func NewHandler(w io.Writer, level slog.Leveler) *Handler {
	return &Handler{level: level, out: &output{w: w}}
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(_ context.Context, level slog.Level) bool { return level >= h.level.Level() }

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	next.fields = slices.Clone(h.fields)
	for _, a := range attrs {
		next.fields = appendField(next.fields, h.prefix, a)
	}
	return &next
}

// WithGroup implements slog.Handler. A group becomes a prefix of its keys.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	next := *h
	next.prefix += name + "."
	return &next
}

// Handle implements slog.Handler.
func (h *Handler) Handle(_ context.Context, r slog.Record) error {
	fields := slices.Clone(h.fields)
	r.Attrs(func(a slog.Attr) bool {
		fields = appendField(fields, h.prefix, a)
		return true
	})
	line := make([]byte, 0, 256)
	line = append(line, '{')
	line = appendPair(line, "ts", r.Time.UTC().Format(timeForm))
	line = appendPair(line, "level", levelName(r.Level))
	line = appendPair(line, "event", bounded(r.Message))
	for _, f := range fields {
		if len(line)+len(f.key)+len(f.value) > maxLine {
			line = appendPair(line, "truncated", "true")
			break
		}
		line = appendPair(line, f.key, f.value)
	}
	line = append(line, '}', '\n')
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(line)
	return err
}

// appendField adds an attribute; a later value of a key replaces the earlier,
// for a line with one key twice has no meaning to those who read it.
func appendField(fields []field, prefix string, a slog.Attr) []field {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, inner := range v.Group() {
			fields = appendField(fields, prefix, inner)
		}
		return fields
	}
	if a.Key == "" {
		return fields
	}
	f := field{key: prefix + a.Key, value: bounded(text(v))}
	switch f.key {
	case "ts", "level", "event":
		f.key = "field_" + f.key
	}
	if at := slices.IndexFunc(fields, func(o field) bool { return o.key == f.key }); at >= 0 {
		fields[at] = f
		return fields
	}
	return append(fields, f)
}

// text prints a value the way the original's logs show it.
func text(v slog.Value) string {
	switch v.Kind() {
	case slog.KindString:
		return v.String()
	case slog.KindFloat64:
		return strconv.FormatFloat(v.Float64(), 'f', -1, 64)
	case slog.KindTime:
		return v.Time().UTC().Format(timeForm)
	case slog.KindAny:
		return anyText(v.Any())
	}
	return v.String()
}

func anyText(value any) (s string) {
	// A nil pointer behind an interface is not worth a crash of the logger.
	defer func() {
		if recover() != nil {
			s = "<nil>"
		}
	}()
	switch x := value.(type) {
	case nil:
		return ""
	case error:
		return x.Error()
	case fmt.Stringer:
		return x.String()
	case []string:
		return strings.Join(x, ",")
	case []byte:
		return string(x)
	}
	return fmt.Sprint(value)
}

// bounded cuts a value that is too long, between two characters.
func bounded(s string) string {
	if len(s) <= maxValue {
		return s
	}
	cut := maxValue
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

func levelName(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

func appendPair(line []byte, key, value string) []byte {
	if line[len(line)-1] != '{' {
		line = append(line, ',')
	}
	line = appendString(line, key)
	line = append(line, ':')
	return appendString(line, value)
}

// appendString quotes; invalid UTF-8 becomes the replacement character.
func appendString(line []byte, s string) []byte {
	quoted := bytes.NewBuffer(line)
	enc := json.NewEncoder(quoted)
	enc.SetEscapeHTML(false) // paths and errors are read by people
	if err := enc.Encode(s); err != nil {
		return append(line, `""`...)
	}
	return bytes.TrimSuffix(quoted.Bytes(), []byte("\n"))
}

var _ slog.Handler = (*Handler)(nil)

// Elapsed is a duration in whole milliseconds, the form of the fields that
// end in _ms.
func Elapsed(d time.Duration) slog.Value { return slog.Int64Value(d.Milliseconds()) }

package config

import (
	"fmt"
	"log/slog"
)

// Level is the log level by its name in the logs.
type Level slog.Level

// Level implements slog.Leveler.
func (l Level) Level() slog.Level { return slog.Level(l) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *Level) UnmarshalText(text []byte) error {
	switch string(text) {
	case "error":
		*l = Level(slog.LevelError)
	case "warn":
		*l = Level(slog.LevelWarn)
	case "info":
		*l = Level(slog.LevelInfo)
	case "debug":
		*l = Level(slog.LevelDebug)
	default:
		return fmt.Errorf("unknown log level %q", text)
	}
	return nil
}

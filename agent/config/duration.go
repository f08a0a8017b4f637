package config

import "time"

// Milliseconds is a duration whose text is a whole number of milliseconds.
type Milliseconds time.Duration

// Duration is the same span as a time.Duration.
func (m Milliseconds) Duration() time.Duration { return time.Duration(m) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Milliseconds) UnmarshalText(text []byte) error {
	n, err := integer(string(text))
	*m = Milliseconds(time.Duration(n) * time.Millisecond)
	return err
}

// Seconds is a duration whose text is a whole number of seconds.
type Seconds time.Duration

// Duration is the same span as a time.Duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Seconds) UnmarshalText(text []byte) error {
	n, err := integer(string(text))
	*s = Seconds(time.Duration(n) * time.Second)
	return err
}

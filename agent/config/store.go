package config

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"encoding/json"

	"golang.org/x/sys/unix"
)

const (
	defaultStateDir = "/config"
	fileName        = "agent.json"
	// maxFile bounds the configuration file and a patch of it, as the HTTP
	// server bounds a request.
	maxFile = 2 << 20
)

// Machine is what Load needs from its surroundings; the zero value of a field
// stands for the real one.
type Machine struct {
	Environ  []string
	Hostname func() (string, error)
	Addrs    func() ([]net.Addr, error)
	// Untouched: look at the configuration only, make no directory for it.
	Untouched bool
}

// Store holds the configuration of a running agent: what is running, what
// the file layer says, and where each value comes from.
type Store struct {
	environment layer
	host        host
	addrs       func() ([]net.Addr, error)
	boot        map[string]string
	warnings    []Warning
	running     atomic.Pointer[Config]
	changed     chan struct{}

	mu      sync.Mutex // guards what follows, and the file
	file    map[string]json.RawMessage
	known   *fileSum // of the file where changes are saved; nil: there was none
	values  map[string]string
	origins map[string]Origin
	restart bool
	notices []Warning
}

// Load reads the environment and the file layer and checks everything. The
// error is an *Error where a setting is to blame.
func Load(m Machine) (*Store, error) {
	if m.Environ == nil {
		m.Environ = os.Environ()
	}
	if m.Hostname == nil {
		m.Hostname = os.Hostname
	}
	if m.Addrs == nil {
		m.Addrs = hostAddrs
	}
	environment, warnings, err := environmentLayer(m.Environ)
	if err != nil {
		return nil, err
	}
	s := &Store{environment: environment, addrs: m.Addrs, warnings: warnings, changed: make(chan struct{}, 1)}
	// A host without a name or without addresses still runs when the
	// settings name them.
	s.host.name, _ = m.Hostname()
	addrs, _ := s.addrs()
	s.host.ipv4 = firstIPv4(addrs)

	read := s.locate(m.Untouched)
	if err := s.readAtStart(read); err != nil {
		return nil, &Error{Key: "AGENT_CONFIG_FILE", Value: read, Err: err}
	}
	next, fileWarnings, err := s.consider(s.file)
	if err != nil {
		return nil, err
	}
	s.warnings = append(s.warnings, fileWarnings...)
	s.values, s.origins, s.boot = next.values, next.origins, next.values
	s.running.Store(next.config)
	return s, nil
}

// locate decides which file is read and where saves go; both follow from the
// environment alone (agent API reference §12.1). The file to read is empty
// when there is none.
func (s *Store) locate(untouched bool) (read string) {
	if path := s.environment["AGENT_CONFIG_FILE"]; path != "" {
		s.host.file = path
		return path
	}
	dir := s.environment["STATE_DIR"]
	if dir == "" {
		dir = defaultStateDir
	}
	path := filepath.Join(dir, fileName)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		read = path
	}
	var err error
	if !untouched {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = unix.Access(dir, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		s.warnings = append(s.warnings, Warning{Event: "state_dir_unwritable",
			Fields: map[string]string{"path": dir, "error": err.Error()}})
		return read
	}
	s.host.file = path
	return read
}

func (s *Store) readAtStart(path string) error {
	s.file = map[string]json.RawMessage{}
	if path == "" {
		return nil
	}
	text, err := readFile(path)
	if err != nil {
		return err
	}
	s.known = sumOf(text)
	s.file, err = parseObject(text)
	return err
}

// errNoFile is a pipe, a socket or a device.
var errNoFile = errors.New("is not a regular file")

// errTooLarge is a file that the agent does not read.
var errTooLarge = fmt.Errorf("is larger than %d bytes", maxFile)

func readFile(path string) ([]byte, error) {
	// A named pipe would be waited for, by the reconcile loop among others.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, errors.Join(errNoFile, f.Close())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, err
	}
	if len(text) > maxFile {
		return nil, errTooLarge
	}
	return text, nil
}

// candidate is a configuration that was checked and not yet taken.
type candidate struct {
	values  map[string]string
	origins map[string]Origin
	config  *Config
}

func (s *Store) consider(object map[string]json.RawMessage) (candidate, []Warning, error) {
	file, warnings, err := fileLayer(object)
	if err != nil {
		return candidate{}, nil, err
	}
	values, origins := resolve(s.environment, file, s.host)
	if err := checkDerived(values, origins); err != nil {
		return candidate{}, nil, err
	}
	config, err := decode(values)
	if err != nil {
		return candidate{}, nil, err
	}
	return candidate{values: values, origins: origins, config: config}, warnings, nil
}

// LookForAddress looks again for the host's address where NMOS_HOST_ADDRESS is not set
// and there was none, and says whether there is one now. Only at start: what is
// announced does not change afterwards.
func (s *Store) LookForAddress() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.values["NMOS_HOST_ADDRESS"] != "" {
		return true, nil
	}
	addrs, err := s.addrs()
	if err != nil {
		return false, fmt.Errorf("read the addresses of this host: %w", err)
	}
	if s.host.ipv4 = firstIPv4(addrs); s.host.ipv4 == "" {
		return false, nil
	}
	next, _, err := s.consider(s.file)
	if err != nil {
		return false, err
	}
	s.values, s.origins, s.boot = next.values, next.origins, next.values
	s.running.Store(next.config)
	return true, nil
}

// checkNewPath refuses another scan path that is no directory: the next start would
// end with it, and no API would be there to take it back.
func (s *Store) checkNewPath(next candidate) error {
	if next.config.ScanPath == s.values["MXL_DOMAIN_SCAN_PATH"] {
		return nil
	}
	return next.config.CheckScanPath()
}

// Config is the running configuration: the settings at start, with those that
// apply at once as they are now.
func (s *Store) Config() *Config { return s.running.Load() }

// Changed receives a value after the running configuration changed. Its
// capacity is 1; whoever reads it looks at Config again.
func (s *Store) Changed() <-chan struct{} { return s.changed }

// Warnings are what Load found worth a log line.
func (s *Store) Warnings() []Warning { return slices.Clone(s.warnings) }

// Path is where changes are saved, empty when nowhere.
func (s *Store) Path() string { return s.host.file }

// RestartRequired reports whether a setting was changed since the start that
// applies only after a restart. It stays true once it was.
func (s *Store) RestartRequired() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.restart
}

// take saves the new file layer, then makes it the current one. Nothing is
// changed when saving fails.
func (s *Store) take(object map[string]json.RawMessage) error {
	next, _, err := s.consider(object)
	if err != nil {
		return err
	}
	if err := s.checkNewPath(next); err != nil {
		return err
	}
	running := maps.Clone(s.boot)
	restart := false
	for _, k := range keys {
		switch {
		case k.Runtime:
			running[k.Name] = next.values[k.Name]
		case k.normal(next.values[k.Name]) != k.normal(s.values[k.Name]):
			restart = true
		}
	}
	config, err := decode(running)
	if err != nil {
		return err
	}
	if s.host.file == "" && restart {
		// It would neither apply now nor be there at the next start.
		return &SaveError{Path: filepath.Join(next.values["STATE_DIR"], fileName),
			Err: errors.New("the directory cannot be written, and what applies at the next start would be lost")}
	}
	if s.host.file != "" {
		text, err := json.MarshalIndent(object, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the file layer: %w", err)
		}
		text = append(text, '\n')
		if err := save(s.host.file, text); err != nil {
			return &SaveError{Path: s.host.file, Err: err}
		}
		s.known = sumOf(text)
	}
	s.file, s.values, s.origins = object, next.values, next.origins
	s.restart = s.restart || restart
	s.running.Store(config)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return nil
}

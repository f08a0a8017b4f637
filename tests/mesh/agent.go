package mesh

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// fabricPorts is the size of an agent's target port pool here.
const fabricPorts = 100

// Agent is one mxl-fabrics-agent with its MXL root.
type Agent struct {
	HostID string
	Root   string // its MXL_DOMAIN_SCAN_PATH
	URL    string // http://127.0.0.1:<WEB_PORT>
	// Through is a command that runs the agent with the arguments that follow,
	// in its own process: unshare, nice. Empty: none.
	Through []string
	// Client makes the requests of the agent. Nil: the mesh's.
	Client *http.Client

	*Process
	environment map[string]string
	mesh        *Mesh
}

// newAgent prepares an agent: directories and ports, but no process.
func newAgent(m *Mesh, hostID string) (*Agent, error) {
	web, err := freePorts(3) // WEB_PORT, NMOS_PORT, NMOS_PORT+1
	if err != nil {
		return nil, err
	}
	fabric, err := freePorts(fabricPorts)
	if err != nil {
		return nil, err
	}
	a := &Agent{HostID: hostID, Root: filepath.Join(m.Shm, hostID), mesh: m}
	state := filepath.Join(m.Logs, "state-"+hostID)
	for _, directory := range []string{a.Root, state} {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			return nil, err
		}
	}
	a.URL = "http://127.0.0.1:" + strconv.Itoa(web)
	a.environment = map[string]string{
		"HOST_ID":              hostID,
		"MXL_DOMAIN_SCAN_PATH": a.Root,
		"STATE_DIR":            state,
		"WEB_PORT":             strconv.Itoa(web),
		"NMOS_PORT":            strconv.Itoa(web + 1),
		"NMOS_HOST_ADDRESS":    hostAddress(),
		"DEFAULT_PROVIDER":     "tcp",
		"FABRIC_INTERFACE":     "127.0.0.1",
		"FABRIC_PORT_BASE":     strconv.Itoa(fabric),
		"FABRIC_PORT_COUNT":    strconv.Itoa(fabricPorts),
		"TMPFS_RESERVE_MB":     "64",
		"LOCAL_NODE_CIDRS":     "127.0.0.0/8",
	}
	return a, nil
}

// Get reads a JSON document of the agent; a nil into only checks the status.
func (a *Agent) Get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.URL+path, nil)
	if err != nil {
		return err
	}
	resp, err := a.client().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %.200s", path, resp.Status, body)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("GET %s: %w", path, err)
	}
	return nil
}

// Replication is a row of GET /api/v1/replications.
type Replication struct {
	Role       string  `json:"role"`
	FlowID     string  `json:"flow_id"`
	State      string  `json:"state"`
	Grains     uint64  `json:"grains"`
	Bytes      uint64  `json:"bytes"`
	Errors     uint64  `json:"errors"`
	HeadIndex  uint64  `json:"head_index"`
	LagGrains  float64 `json:"lag_grains"`
	LagMS      float64 `json:"lag_ms"`
	OriginGaps uint64  `json:"origin_gaps"`
	LastError  string  `json:"last_error"`
}

// Replications lists the agent's replications.
func (a *Agent) Replications(ctx context.Context) (rows []Replication, err error) {
	err = a.Get(ctx, "/api/v1/replications", &rows)
	return rows, err
}

// MirrorDomain is the directory of the agent's mirror of a domain.
func (a *Agent) MirrorDomain(domainID string) string {
	return filepath.Join(a.Root, "mirror-"+domainID)
}

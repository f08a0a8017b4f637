package mesh

import (
	"maps"
	"net/http"
	"path/filepath"
)

// Place adds an agent that the caller has prepared everything for: its
// directories and whatever Through runs it in. The environment is the agent's
// whole configuration; HOST_ID and MXL_DOMAIN_SCAN_PATH have to be in it.
func (m *Mesh) Place(url string, through []string, client *http.Client, environment map[string]string) *Agent {
	return &Agent{HostID: environment["HOST_ID"], Root: filepath.Clean(environment["MXL_DOMAIN_SCAN_PATH"]), URL: url,
		Through: through, Client: client, environment: maps.Clone(environment), mesh: m}
}

func (a *Agent) client() *http.Client {
	if a.Client != nil {
		return a.Client
	}
	return a.mesh.client
}

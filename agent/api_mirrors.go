package agent

import (
	"net/http"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// getMirrors lists the mirror domains as the last pass saw them.
func (a *Agent) getMirrors(w http.ResponseWriter, _ *http.Request) {
	rows := a.view.load().mirrors
	if rows == nil {
		rows = []mirror.DomainView{}
	}
	httpapi.WriteJSON(w, http.StatusOK, rows)
}

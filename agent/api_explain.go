package agent

import (
	"net/http"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
)

// getExplain says why a flow is here, or which step keeps it away.
func (a *Agent) getExplain(w http.ResponseWriter, r *http.Request) {
	flow, err := uuid.Parse(r.PathValue("flow_id"))
	if err != nil {
		httpapi.WriteError(w, http.StatusBadRequest, "flow_id "+quoted(r.PathValue("flow_id"))+" is not a UUID")
		return
	}
	httpapi.WriteJSON(w, http.StatusOK, explain(a.explainable(r.PathValue("domain_id"), flow)))
}

package agent

import (
	"errors"
	"maps"
	"net/http"
	"slices"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/config"
	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
)

func (a *Agent) getConfig(w http.ResponseWriter, _ *http.Request) {
	httpapi.WriteJSON(w, http.StatusOK, map[string]any{
		"config": a.store.Export(), "origin": a.store.Origins(), "restart_required": a.store.RestartRequired(),
	})
}

func (a *Agent) getConfigEnv(w http.ResponseWriter, _ *http.Request) {
	httpapi.WriteBody(w, http.StatusOK, "text/plain; charset=utf-8", []byte(a.store.Environment()))
}

func (a *Agent) getConfigExport(w http.ResponseWriter, _ *http.Request) {
	text, err := a.store.ExportText()
	if err != nil {
		httpapi.WriteError(w, http.StatusInternalServerError, err.Error())
		return
	}
	httpapi.WriteBody(w, http.StatusOK, "application/json", text)
}

func (a *Agent) putConfig(w http.ResponseWriter, r *http.Request) {
	if !a.store.Config().WebEnable {
		httpapi.WriteError(w, http.StatusForbidden, "ui disabled")
		return
	}
	a.changeConfig(w, r, a.store.Merge)
}

func (a *Agent) importConfig(w http.ResponseWriter, r *http.Request) {
	a.changeConfig(w, r, a.store.Import)
}

func (a *Agent) changeConfig(w http.ResponseWriter, r *http.Request, change func([]byte) (bool, error)) {
	body, ok := httpapi.ReadBody(w, r)
	if !ok {
		return
	}
	restart, err := change(body)
	for _, n := range a.store.Notices() {
		attrs := make([]any, 0, 2*len(n.Fields))
		for _, name := range slices.Sorted(maps.Keys(n.Fields)) {
			attrs = append(attrs, name, n.Fields[name])
		}
		a.log.Warn(n.Event, attrs...)
	}
	var save *config.SaveError
	var file *config.FileError
	switch {
	case errors.As(err, &file):
		httpapi.WriteError(w, http.StatusConflict, err.Error())
	case errors.As(err, &save):
		httpapi.WriteError(w, http.StatusInternalServerError, err.Error())
	case err != nil:
		httpapi.WriteError(w, http.StatusBadRequest, err.Error())
	default:
		a.log.Info("config_saved", "path", a.store.Path())
		a.logConfig()
		httpapi.WriteJSON(w, http.StatusOK, map[string]bool{"restart_required": restart})
	}
}

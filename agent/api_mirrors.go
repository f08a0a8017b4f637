package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/mxl-stack/mxl-fabrics-agent/agent/httpapi"
	"github.com/mxl-stack/mxl-fabrics-agent/mirror"
)

// orderWait is how long a handler waits for a deed on a mirror: a reader check
// on a busy host, and the deed before it.
const orderWait = 15 * time.Second

// getMirrors lists the mirror domains as the last pass saw them.
func (a *Agent) getMirrors(w http.ResponseWriter, _ *http.Request) {
	httpapi.WriteJSON(w, http.StatusOK, a.view.load().mirrorList())
}

// removedMirror is the answer of DELETE /api/v1/mirrors/{domain_id}.
type removedMirror struct {
	Removed bool            `json:"removed"`
	DryRun  bool            `json:"dry_run,omitempty"`
	Path    string          `json:"path,omitempty"`
	Flows   int             `json:"flows"`
	Gone    []string        `json:"removed_flows,omitempty"` // of a removal that failed half way
	Readers []mirror.Reader `json:"readers,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// deleteMirror removes one mirror domain of ours unless somebody reads it. A
// mirror that is still wanted comes back with the next pass.
func (a *Agent) deleteMirror(w http.ResponseWriter, r *http.Request) {
	id := a.mirrorID(r.PathValue("domain_id"))
	ctx, cancel := context.WithTimeout(r.Context(), orderWait)
	defer cancel()
	// Look before anything stops: a removal that is refused must not have cost a
	// grain.
	if err := a.room.CheckDomain(ctx, id); err != nil {
		if errors.Is(err, mirror.ErrObstacle) {
			a.log.Warn("mirror_domain_remove_failed", "domain_id", id, "error", err)
		}
		a.refuseMirror(w, id, mirror.Removal{}, err)
		return
	}
	domain := a.mirrorOnDisk(id)
	if a.store.Config().MirrorCleanupDryRun {
		a.log.Info("mirror_domain_would_remove", "domain_id", id, "domain", id, "path", domain.Path, "reason", mirror.Delete)
		httpapi.WriteJSON(w, http.StatusOK, removedMirror{DryRun: true, Path: domain.Path, Flows: len(domain.Flows)})
		return
	}
	var flows []mirror.Key
	for _, f := range domain.Flows {
		flows = append(flows, f.Key)
	}
	type outcome struct {
		removal mirror.Removal
		err     error
	}
	done := make(chan outcome, 1)
	err := a.order(ctx, func(ctx context.Context) bool {
		return a.mirrors.removeDomain(ctx, id, flows, mirror.Delete, func(rm mirror.Removal, err error) { done <- outcome{rm, err} })
	})
	if err != nil {
		httpapi.WriteJSON(w, http.StatusConflict, removedMirror{Error: err.Error()})
		return
	}
	select {
	case o := <-done:
		if o.err != nil {
			a.refuseMirror(w, id, o.removal, o.err)
			return
		}
		a.page.DomainRemoved(string(mirror.Delete))
		httpapi.WriteJSON(w, http.StatusOK, removedMirror{Removed: true, Path: o.removal.Path, Flows: len(o.removal.Flows)})
	case <-ctx.Done():
		httpapi.WriteJSON(w, http.StatusConflict, removedMirror{Error: "the removal did not end in time: " + ctx.Err().Error()})
	}
}

// order starts a deed, waiting for one that is at work on the same mirror.
func (a *Agent) order(ctx context.Context, start func(context.Context) bool) error {
	// The deed itself must not end with the request that ordered it.
	deed := context.WithoutCancel(ctx)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for !start(deed) {
		select {
		case <-ctx.Done():
			return errors.New("another change of this mirror is at work")
		case <-ticker.C:
		}
	}
	return nil
}

func (a *Agent) mirrorOnDisk(id string) mirror.DomainOnDisk {
	domains, err := a.room.Survey()
	if err != nil {
		return mirror.DomainOnDisk{}
	}
	for _, d := range domains {
		if d.DomainID == id {
			return d
		}
	}
	return mirror.DomainOnDisk{}
}

// mirrorID is the spelling that the mirror of a domain has on disk: ids that are
// UUIDs are the same in upper and lower case.
func (a *Agent) mirrorID(id string) string {
	if _, err := uuid.Parse(id); err != nil || a.mirrorOnDisk(id).DomainID == id {
		return id
	}
	domains, err := a.room.Survey()
	if err != nil {
		return id
	}
	for _, d := range domains {
		if strings.EqualFold(d.DomainID, id) {
			return d.DomainID
		}
	}
	return id
}

// refuseMirror answers why a mirror domain was not removed, and what of it is
// gone all the same.
func (a *Agent) refuseMirror(w http.ResponseWriter, id string, removal mirror.Removal, err error) {
	var busy *mirror.BusyError
	switch {
	case errors.Is(err, mirror.ErrNotMirror):
		httpapi.WriteError(w, http.StatusNotFound, fmt.Sprintf("this agent has no mirror of domain %s", quoted(id)))
	case errors.As(err, &busy):
		a.page.DomainRefused(string(mirror.Delete))
		busyEvent(id, a.mirrorOnDisk(id).Path, busy).Log(a.log)
		httpapi.WriteJSON(w, http.StatusConflict, removedMirror{Readers: busy.Readers, Error: err.Error()})
	default:
		if failed(err) {
			a.page.DomainRefused(string(mirror.Delete))
		}
		answer := removedMirror{Flows: len(removal.Flows), Error: err.Error()}
		for _, k := range removal.Flows {
			answer.Gone = append(answer.Gone, k.FlowID.String())
		}
		httpapi.WriteJSON(w, http.StatusConflict, answer)
	}
}

// rebuiltMirror is the answer of the rebuild hook.
type rebuiltMirror struct {
	OldInode uint64          `json:"old_inode"`
	Inode    uint64          `json:"inode"`
	Readers  []mirror.Reader `json:"readers"`
}

// rebuildMirror is the test hook: it makes one mirror flow anew, readers or not
// (contract, "Test hook"). Only the deployment can allow it.
func (a *Agent) rebuildMirror(w http.ResponseWriter, r *http.Request) {
	if !a.store.Config().MirrorAdminRebuild {
		httpapi.WriteError(w, http.StatusForbidden, "the rebuild hook is off: start the agent with MIRROR_ADMIN_REBUILD=true in its environment")
		return
	}
	k, err := mirrorKey(r.PathValue("domain_id"), r.PathValue("flow_id"))
	if err != nil {
		httpapi.WriteError(w, http.StatusBadRequest, err.Error())
		return
	}
	k.DomainID = a.mirrorID(k.DomainID)
	known := false
	for _, f := range a.mirrorOnDisk(k.DomainID).Flows {
		known = known || f.Key == k
	}
	if !known {
		httpapi.WriteError(w, http.StatusNotFound, "this agent has no mirror flow "+k.String())
		return
	}
	a.log.Warn("mirror_rebuild_requested", "domain_id", k.DomainID, "flow_id", k.FlowID)
	ctx, cancel := context.WithTimeout(r.Context(), orderWait)
	defer cancel()
	type outcome struct {
		rebuilt mirror.Rebuilt
		err     error
	}
	done := make(chan outcome, 1)
	err = a.order(ctx, func(ctx context.Context) bool {
		return a.mirrors.rebuildFlow(ctx, k, func(rb mirror.Rebuilt, err error) { done <- outcome{rb, err} })
	})
	if err != nil {
		httpapi.WriteError(w, http.StatusInternalServerError, err.Error())
		return
	}
	select {
	case o := <-done:
		if o.err != nil || o.rebuilt.Flow == nil {
			httpapi.WriteError(w, http.StatusInternalServerError, fmt.Sprintf("mirror flow %s was not made again: %v", k, o.err))
			return
		}
		body := rebuiltMirror{OldInode: o.rebuilt.OldInode, Inode: o.rebuilt.Flow.Inode, Readers: o.rebuilt.Readers}
		if body.Readers == nil {
			body.Readers = []mirror.Reader{}
		}
		httpapi.WriteJSON(w, http.StatusOK, body)
	case <-ctx.Done():
		httpapi.WriteError(w, http.StatusInternalServerError, "the rebuild did not end in time")
	}
}

func mirrorKey(domainID, flowID string) (mirror.Key, error) {
	if _, err := uuid.Parse(domainID); err != nil {
		return mirror.Key{}, errors.New("domain_id " + quoted(domainID) + " is not a UUID")
	}
	flow, err := uuid.Parse(flowID)
	if err != nil {
		return mirror.Key{}, errors.New("flow_id " + quoted(flowID) + " is not a UUID")
	}
	return mirror.Key{DomainID: domainID, FlowID: flow}, nil
}

// busyEvent is a DELETE that readers, or an incomplete sight of them, refused.
func busyEvent(domainID, path string, busy *mirror.BusyError) mirror.Event {
	return mirror.Event{
		Kind: mirror.EventDomainBusy, Key: mirror.Key{DomainID: domainID}, Path: path, Reason: mirror.Delete, Readers: busy.Readers, Why: busy.Unknown,
	}
}

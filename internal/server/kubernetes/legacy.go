package kubernetes

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// advertised takes in the advertisement of a prototype's agent. Its time is local, said to be UTC: only that it changed counts.
func (d *desk) advertised(ctx context.Context, spec kubernetes.Spec, status *kubernetes.Status) {
	if spec.Timestamp == status.Observed {
		return
	}
	status.Message = ""
	body, err := json.Marshal(map[string]any{
		"clusterID": d.cluster, "clusterName": spec.ClusterName, "resources": spec.Resources, "cost": spec.Cost, "timestamp": time.Now().UTC(),
	})
	if err == nil {
		err = d.own(ctx, http.MethodPost, "/api/v1/advertisements", "", string(body))
	}
	if err != nil {
		status.Message = err.Error()
		if code := api.CodeOf(err); code == api.CodeNotMember || code == api.CodeUnavailable || code == api.CodeTooManyRequests {
			return // again, as it may be taken then
		}
	}
	status.Observed = spec.Timestamp
	if err == nil {
		d.heard = d.Server.Exchange.Now()
	}
}

// instruct notes that a prototype's agent, if it is alive and looks here, is about to be shown its instructions: so it accepts them. One that comes by
// HTTP does so by itself, when it asks for them.
func (d *desk) instruct(ctx context.Context) {
	l, now := d.Server.Exchange.View().Listing(d.cluster), d.Server.Exchange.Now()
	if l == nil || l.Member == nil || !l.Member.Legacy || !l.Fresh(now) || now.Go().Sub(d.heard.Go()) >= market.Lease {
		return
	}
	if err := d.own(ctx, http.MethodGet, "/api/v1/reservations", "", ""); err != nil {
		d.log.Warn("an agent of the prototypes was not instructed", "error", err)
	}
}

// asked are the Reservations, by UID, of which the answer is under way.
type asked struct {
	mu  sync.Mutex
	all map[types.UID]struct{}
}

// begin says that the answer to one is not under way yet, and now is.
func (a *asked) begin(id types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, there := a.all[id]; there || len(a.all) >= kubernetes.MaxCalls {
		return false
	}
	if a.all == nil {
		a.all = map[types.UID]struct{}{}
	}
	a.all[id] = struct{}{}
	return true
}

func (a *asked) end(id types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, id)
}

// asks says whether a Reservation that the market does not know is one that people ask for, as they did with the prototype, and answers it: the
// reservation that is made of it takes its place. No member has the right to make one.
func (d *desk) asks(ctx context.Context, object *unstructured.Unstructured) bool {
	var spec struct {
		RequesterID        string            `json:"requesterID"`
		TargetClusterID    string            `json:"targetClusterID"`
		RequestedResources map[string]string `json:"requestedResources"`
		Duration           string            `json:"duration"`
	}
	var status struct {
		Phase    string `json:"phase"`
		Revision uint64 `json:"revision"`
	}
	if kubernetes.Part(object, "spec", &spec) != nil || kubernetes.Part(object, "status", &status) != nil ||
		spec.RequesterID != d.cluster || len(spec.RequestedResources) == 0 || status.Revision != 0 {
		return false
	}
	if status.Phase != "" || !d.asked.begin(object.GetUID()) {
		return true // it was, or is being, answered
	}
	body, err := json.Marshal(map[string]any{"requestedResources": spec.RequestedResources, "targetClusterID": spec.TargetClusterID, "duration": spec.Duration})
	if err != nil {
		return false
	}
	d.all.Go(func() {
		defer d.change()
		defer d.asked.end(object.GetUID())
		err := d.own(ctx, http.MethodPost, "/api/v1/reservations", string(object.GetUID()), string(body))
		switch code := api.CodeOf(err); {
		case code == api.CodeUnavailable || code == api.CodeTooManyRequests || ctx.Err() != nil:
			return // again
		case err != nil:
			err = d.write(ctx, object, map[string]any{"phase": "Failed", "message": err.Error()})
		default:
			err = client.IgnoreNotFound(d.client.Delete(ctx, object))
		}
		if err != nil {
			d.log.Warn("a Reservation that a user created could not be answered", "name", object.GetName(), "error", err)
		}
	})
	return true
}

// Package objects serves agents of the prototypes that read and write objects of the broker's
// cluster instead of calling it by HTTP. It has the prototypes' words for what those objects say.
package objects

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
)

// Agent serves the agent of one member. Its methods are called on one goroutine.
type Agent struct {
	Cluster  string
	Exchange *exchange.Exchange
	// Call makes a call of the resource agents' REST API as the cluster. The key may be empty.
	Call func(ctx context.Context, method, path, key, body string) error
	// Client writes the objects. Go starts work that outlives a method; Changed is called after
	// each such work.
	Client  client.Client
	Go      func(func())
	Changed func()
	Log     *slog.Logger

	advertised market.Time // when the agent last advertised here
	answering  answering
}

// Advertise passes on the advertisement of the agent. The agent writes its local time as UTC, so
// only a change counts.
func (a *Agent) Advertise(ctx context.Context, spec kubernetes.Spec, status *kubernetes.Status) {
	if spec.Timestamp == status.Observed {
		return
	}
	status.Message = ""
	body, err := json.Marshal(map[string]any{
		"clusterID": a.Cluster, "clusterName": spec.ClusterName,
		"resources": spec.Resources, "cost": spec.Cost, "timestamp": time.Now().UTC(),
	})
	if err == nil {
		err = a.Call(ctx, http.MethodPost, "/api/v1/advertisements", "", string(body))
	}
	if err != nil {
		status.Message = err.Error()
		if code := api.CodeOf(err); code == api.CodeNotMember || code == api.CodeUnavailable ||
			code == api.CodeTooManyRequests {
			return // the next call may succeed
		}
	}
	status.Observed = spec.Timestamp
	if err == nil {
		a.advertised = a.Exchange.Now()
	}
}

// FetchInstructions accepts, in the name of an agent that is alive and uses objects, the
// instructions that it is about to see. An agent that uses HTTP accepts them when it fetches them.
func (a *Agent) FetchInstructions(ctx context.Context) {
	l, now := a.Exchange.View().Listing(a.Cluster), a.Exchange.Now()
	if l == nil || l.Member == nil || !l.Member.Legacy || !l.Fresh(now) ||
		now.Go().Sub(a.advertised.Go()) >= market.Lease {
		return
	}
	if err := a.Call(ctx, http.MethodGet, "/api/v1/reservations", "", ""); err != nil {
		a.Log.Warn("an agent of the prototypes was not instructed", "error", err)
	}
}

// answering are the Reservations, by UID, that are being answered.
type answering struct {
	mu  sync.Mutex
	all map[types.UID]struct{}
}

// begin reports whether the caller is to answer an object: nobody does so already, and not too many
// are being answered.
func (a *answering) begin(id types.UID) bool {
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

func (a *answering) end(id types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.all, id)
}

// Answer reports whether a Reservation that the market does not know is one with which a user asks
// for a reservation, as with the prototype, and answers it. No member has the right to create one.
func (a *Agent) Answer(ctx context.Context, object *unstructured.Unstructured) bool {
	var spec struct {
		RequesterID        string                        `json:"requesterID"`
		TargetClusterID    string                        `json:"targetClusterID"`
		RequestedResources map[string]intstr.IntOrString `json:"requestedResources"`
		Duration           string                        `json:"duration"`
	}
	var status struct {
		Phase    string `json:"phase"`
		Revision uint64 `json:"revision"`
	}
	if kubernetes.Part(object, "spec", &spec) != nil || kubernetes.Part(object, "status", &status) != nil ||
		spec.RequesterID != a.Cluster || len(spec.RequestedResources) == 0 || status.Revision != 0 {
		return false
	}
	if status.Phase != "" || !a.answering.begin(object.GetUID()) {
		return true // it was answered, or is being answered
	}
	resources := map[string]string{}
	for name, amount := range spec.RequestedResources {
		resources[name] = amount.String()
	}
	body, err := json.Marshal(map[string]any{
		"requestedResources": resources, "targetClusterID": spec.TargetClusterID, "duration": spec.Duration,
	})
	if err != nil {
		return false
	}
	a.Go(func() {
		defer a.Changed()
		defer a.answering.end(object.GetUID())
		err := a.Call(ctx, http.MethodPost, "/api/v1/reservations", string(object.GetUID()), string(body))
		switch code := api.CodeOf(err); {
		case code == api.CodeUnavailable || code == api.CodeTooManyRequests || ctx.Err() != nil:
			return // a later look at the object tries again
		case err != nil:
			after := object.DeepCopy()
			after.Object["status"] = map[string]any{"phase": "Failed", "message": err.Error()}
			err = a.Client.Status().Patch(ctx, after, client.MergeFrom(object))
		default: // the object of the new reservation takes its place
			err = a.Client.Delete(ctx, object)
		}
		if client.IgnoreNotFound(err) != nil {
			a.Log.Warn("a Reservation that a user created could not be answered", "name", object.GetName(), "error", err)
		}
	})
	return true
}

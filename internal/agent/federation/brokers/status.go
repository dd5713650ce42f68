package brokers

import (
	"cmp"
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/federation/enrollment"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// maxMessage bounds the message of a condition, in bytes: a broker writes part of it.
const maxMessage = 1024

// writeStatus writes how a broker stands into its object.
func (b *Brokers) writeStatus(ctx context.Context, object *api.Broker) error {
	status := object.Status.DeepCopy()
	b.describe(object, status)
	b.recordAdmission(object, status)
	return kubeobject.ShowStatus(ctx, b.Client, object, &object.Status, *status)
}

// recordAdmission makes an Event when the reason changes why this cluster has not joined the main broker.
func (b *Brokers) recordAdmission(object *api.Broker, status *api.BrokerStatus) {
	was := meta.FindStatusCondition(object.Status.Conditions, api.ConditionConnected)
	now := meta.FindStatusCondition(status.Conditions, api.ConditionConnected)
	if was != nil && was.Reason == now.Reason {
		return
	}
	kind := corev1.EventTypeWarning
	switch now.Reason {
	case api.ReasonWaitsForToken:
		kind = corev1.EventTypeNormal
	case api.ReasonJoinRefused, api.ReasonBrokerUnreachable, api.ReasonClonedIdentity:
	default:
		return
	}
	b.Events.Eventf(object, nil, kind, now.Reason, "Join", "%s", now.Message)
}

// describe writes how a broker stands into status, and returns its session, nil if there is none.
func (b *Brokers) describe(object *api.Broker, status *api.BrokerStatus) *session.Session {
	session, address, refused := b.find(object)
	c := metav1.Condition{Type: api.ConditionConnected, Status: metav1.ConditionFalse,
		ObservedGeneration: object.Generation}
	var failed error
	if session != nil {
		failed = session.Connection().State().Err
	}
	var joins enrollment.Admission
	if object.Name == api.MainBroker {
		joins = b.Main.Admission()
	}
	switch {
	case session != nil && b.Main.NoBroker && object.Name == api.MainBroker:
		c.Reason, c.Message = "NoBroker", "the agent was started without a broker"
	case object.Spec.Disabled:
		c.Reason, c.Message = "Disabled", "an admin disabled it; existing reservations stay"
	case joins.Err != nil:
		c.Reason, c.Message = joins.Reason, joins.Err.Error()
	case session == nil && refused == nil:
		c.Reason, c.Message = "Joining", "it is being joined"
	case session == nil:
		c.Reason, c.Message = "NotJoined", refused.Error()
	case session.IsConnected():
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, "Connected", "its watch is open"
	case failed != nil:
		c.Reason, c.Message = string(api.CodeOf(failed)), failed.Error()
	default:
		c.Reason, c.Message = "Joining", "it has not answered yet"
	}
	if len(c.Message) > maxMessage {
		c.Message = strings.ToValidUTF8(c.Message[:maxMessage], "")
	}
	status.URL = address
	meta.SetStatusCondition(&status.Conditions, c)
	return session
}

// find returns the session with a broker, nil if there is none, its URL, and why it was not joined.
func (b *Brokers) find(object *api.Broker) (session *session.Session, address string, refused error) {
	if object.Name == api.MainBroker {
		return b.Sessions.BrokerNamed(api.MainBroker), b.Main.URL(), nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	entry := b.entries[object.Name]
	switch {
	case entry == nil:
		return nil, object.Spec.URL, nil
	case entry.membership == nil:
		return nil, object.Spec.URL, entry.err
	}
	return entry.session, entry.membership.URL(), entry.err
}

// MainState returns how the connection to the main broker is.
func (b *Brokers) MainState() session.State {
	return b.Sessions.BrokerNamed(api.MainBroker).Connection().State()
}

// RetryMain tries to reach the main broker at once, if it is lost.
func (b *Brokers) RetryMain() {
	if main := b.Sessions.BrokerNamed(api.MainBroker); main.Connection().IsLost(0) {
		main.Retry()
	}
}

// List returns how all brokers stand, the main one first and the others by name. Join tokens are left out.
func (b *Brokers) List(ctx context.Context) ([]api.Envelope[api.KnownBroker], error) {
	var list api.BrokerList
	if err := b.Client.List(ctx, &list, client.InNamespace(b.Namespace)); err != nil {
		return nil, kubeobject.Error(err)
	}
	main := api.Broker{ObjectMeta: metav1.ObjectMeta{Name: api.MainBroker}}
	if i := slices.IndexFunc(list.Items, isMain); i >= 0 {
		main = list.Items[i]
		list.Items = slices.Delete(list.Items, i, i+1)
	}
	slices.SortFunc(list.Items, func(x, y api.Broker) int { return cmp.Compare(x.Name, y.Name) })
	all := append([]api.Broker{main}, list.Items...)
	made := map[string]int{} // counting reservations by broker
	reservations, err := b.Ledger.Reservations(ctx)
	for _, r := range reservations {
		if r.State.Counts() && session.IsBroker(r.Via) {
			made[session.BrokerName(r.Via)]++
		}
	}
	out := make([]api.Envelope[api.KnownBroker], len(all))
	for i := range all {
		o := &all[i]
		known := api.KnownBroker{Spec: o.Spec, Status: *o.Status.DeepCopy(), Reservations: made[o.Name]}
		known.Spec.Join = ""
		if session := b.describe(o, &known.Status); session != nil {
			state := session.Connection().State()
			if !state.Last.IsZero() {
				known.LastHeard = metav1.NewTime(state.Last)
			}
			if isMain(*o) && o.UID == "" { // no object keeps the time of the last change
				meta.FindStatusCondition(known.Status.Conditions,
					api.ConditionConnected).LastTransitionTime = metav1.NewTime(state.Turned)
			}
		}
		out[i] = api.Envelope[api.KnownBroker]{ID: o.Name, Revision: uint64(o.Generation), Payload: known}
	}
	return out, err
}

func isMain(o api.Broker) bool { return o.Name == api.MainBroker }

package market

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// AppendRequest appends a request to b as json.Marshal spells it.
func AppendRequest(b []byte, in *api.ReservationCreate) ([]byte, error) {
	w := &encoder{b: append(b, '{'), html: true}
	w.request(&in.Request)
	w.shut("}")
	return w.b, w.err
}

// AppendAnswer appends a reservation to b, for a party to it, as json.Marshal spells it: a broker answers nothing more often.
func AppendAnswer(b []byte, e *api.Envelope[api.Reservation]) ([]byte, error) {
	w := &encoder{b: append(b, '{'), html: true}
	w.text("id", e.ID)
	w.unsigned("revision", e.Revision)
	w.key("payload")
	w.open('{')
	w.payload(&e.Payload)
	w.shut("}}")
	return w.b, w.err
}

func (w *encoder) payload(r *api.Reservation) {
	w.text("state", string(r.State))
	w.textIfAny("reason", string(r.Reason))
	w.textIfAny("message", r.Message)
	w.text("consumer", r.Consumer)
	w.textIfAny("provider", r.Provider)
	w.textIfAny("pool", r.Pool)
	w.textIfAny("slice", r.Slice)
	w.key("resources")
	if r.Resources == nil {
		w.b = append(w.b, "null"...)
	} else {
		w.resources(r.Resources)
	}
	w.number("generation", r.Generation)
	w.instant("created", r.Created)
	w.instantIfAny("heldUntil", r.HeldUntil)
	w.instantIfAny("deadline", r.Deadline)
	w.instantIfAny("until", r.Until)
	w.instantIfAny("approveBy", r.ApproveBy)
	if r.Waiting != nil {
		w.value("waiting", r.Waiting)
	}
	if r.Change != nil {
		w.value("change", r.Change)
	}
	if len(r.Group) > 0 {
		w.texts("group", r.Group)
	}
	if r.Request != nil {
		w.request(r.Request)
	}
	if r.Decision != nil {
		w.key("decision")
		w.explanation(r.Decision)
		w.choice(r.Decision)
	}
	if len(r.Tried) > 0 {
		w.value("tried", r.Tried)
	}
	if r.Sale != nil {
		w.value("sale", r.Sale)
	}
	w.textIfAny("offer", r.Offer)
	w.key("fence")
	w.open('{')
	w.text("lineage", r.Fence.Lineage)
	w.unsigned("revision", r.Fence.Revision)
	w.shut("}")
	w.textIfAny("consumerCard", r.ConsumerCard)
	w.textIfAny("providerCard", r.ProviderCard)
	w.textIfAny("assignment", r.Assignment)
	w.textIfAny("acceptance", r.Acceptance)
	w.textIfAny("end", r.End)
	w.textIfAny("reclaim", r.Reclaim)
}

// instant writes a time as Kubernetes does, in whole seconds.
func (w *encoder) instant(name string, t metav1.Time) {
	w.key(name)
	if t.IsZero() {
		w.b = append(w.b, "null"...)
		return
	}
	w.b = append(w.b, '"')
	w.b = t.UTC().AppendFormat(w.b, time.RFC3339)
	w.b = append(w.b, '"')
}

func (w *encoder) instantIfAny(name string, t metav1.Time) {
	if !t.IsZero() {
		w.instant(name, t)
	}
}

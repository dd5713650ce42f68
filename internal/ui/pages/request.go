package pages

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/explain"
)

// Revision names what a request says: it is another one after an edit, and for a request that has the name anew.
func Revision(r client.RequestStatus) string {
	return strconv.FormatUint(r.Revision, 10) + "-" + strconv.FormatInt(r.Payload.Created.Unix(), 10)
}

// ResourceName is the name of a resource in a form.
type ResourceName = corev1.ResourceName

// Asked is one request with all that explains it.
type Asked struct {
	Namespace, Name string
	Request         client.RequestStatus
	// Reservation is as the agent shows it, with its decision; Unexplained is why it does not. Both nil: it has none.
	Reservation *client.Reservation
	Unexplained *api.Error
	Provider    *api.Envelope[api.Cluster] // as the broker knows it; nil: that is not known
	Events      []explain.Event            // of the request, the oldest first
	// NoProvider and NoEvents are why these are not known.
	NoProvider, NoEvents *api.Error
	// Instructions are what the cluster carries out, of each part if it is split. Empty: there is none yet.
	Instructions []api.ReservationInstruction
	Contracts    []api.Envelope[api.Deal] // empty: nothing was bought
	Git          string                   // what keeps the request as it is in Git; "": nothing does
	Pods         *Pods                    // nil: it has no virtual node
	// Impact is what would end with it, for the panel that releases it.
	Impact       api.Impact
	ImpactFailed *api.Error
}

// row returns the request as the list of what is borrowed shows it.
func (a Asked) row() borrowedRow { return requestRow(a.Request) }

// longerBy are how much longer the form for another end proposes.
var longerBy = []time.Duration{time.Hour, 4 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}

// longer returns in how long from now the reservation ends if it lasts as much longer, in whole hours: never earlier than
// now agreed.
func (a Asked) longer(by time.Duration, now time.Time) time.Duration {
	left := max(0, a.row().Ends.Sub(now))
	if whole := left.Truncate(time.Hour); whole < left {
		left = whole + time.Hour
	}
	return left + by
}

// extending returns the commands by which the reservation lasts for so long from now. The one of kubectl is to the minute.
func (a Asked) extending(last time.Duration, now time.Time) []string {
	return []string{a.command("extend", "--for", explain.Duration(last)),
		a.patch(a.until(now.Truncate(time.Minute).Add(time.Minute + last)))}
}

// resizing returns the commands that ask for the size in force: the user edits it.
func (a Asked) resizing() []string {
	e := a.inForce()
	return []string{a.command("resize", e.flags(e)...), a.patch(e.size(e))}
}

// releasing returns the commands that end the request. kubectl alone does not give volumes up.
func (a Asked) releasing() []string {
	if v := a.Impact.Volumes; v != nil {
		return []string{a.command("release", "--volumes-die", v.Digest)}
	}
	return []string{a.command("release"), a.kubectl("delete")}
}

// bound reports whether a reservation is in force.
func (a Asked) bound() bool { return a.Request.Payload.Status.Began != nil }

// awaitsConfirmation reports whether the user must confirm what is held.
func (a Asked) awaitsConfirmation() bool {
	return a.Request.Payload.Status.State == api.Held && a.Request.Payload.Request.Confirm
}

// shut names the acts on requests that the user may not do, and the verb of the first for the API server; empty: there are
// none.
func (r Rights) shut() (what, verb string) {
	switch {
	case !r.ChangeRequests && !r.ReleaseRequests:
		return "change or release", "patch"
	case !r.ChangeRequests:
		return "change", "patch"
	case !r.ReleaseRequests:
		return "release", "delete"
	}
	return "", ""
}

// fault is a condition that does not hold.
type fault struct {
	metav1.Condition
	Provider string // of the part that has it; "": the request has it, or it has no parts
}

// faults returns the conditions that do not hold, with those of the instructions.
func (a Asked) faults() (all []fault) {
	collect := func(provider string, conditions []metav1.Condition) {
		for _, c := range conditions {
			approved := c.Type == api.ConditionAwaitsApproval && c.Status == metav1.ConditionFalse
			changes := c.Type == api.ConditionUpToDate && changeAsked(a.Request) != nil // it is shown with what is in force
			holds := c.Status == metav1.ConditionTrue && c.Message == "" || c.Message == a.Request.Payload.Status.Message
			if !approved && !changes && !holds {
				all = append(all, fault{c, provider})
			}
		}
	}
	collect("", a.Request.Payload.Status.Conditions)
	steps := func(provider string, conditions []metav1.Condition) {
		collect(provider, slices.DeleteFunc(slices.Clone(conditions), func(c metav1.Condition) bool {
			return c.Type == api.ConditionReady // the request has its own
		}))
	}
	for _, i := range a.Instructions {
		if len(a.Request.Payload.Status.Parts) > 0 {
			steps(i.Spec.Provider, i.Status.Conditions)
		} else {
			steps("", i.Status.Conditions)
		}
	}
	if len(a.Instructions) == 0 {
		steps("", a.Request.Payload.Steps)
	}
	return all
}

// decision returns the decision about the request; nil: the agent has none.
func (a Asked) decision() *api.Decision {
	if a.Reservation == nil {
		return nil
	}
	return a.Reservation.Payload.Decision
}

// boughtDirectly reports whether the seller's connector sold the reservation, so that no broker decided.
func (a Asked) boughtDirectly() bool {
	return a.Reservation != nil && a.Reservation.Payload.Decision == nil && a.Reservation.Payload.Sale != nil
}

// aboutReservation returns sentences about the reservation: how it waits, and of what it is a part.
func (a Asked) aboutReservation(now time.Time) []string {
	if a.Reservation == nil {
		return nil
	}
	p := a.Reservation.Payload
	lines := []string{explain.Waiting(p, now), explain.Group(p)}
	if a.boughtDirectly() {
		lines = append(lines, explain.BoughtDirectly(p))
	}
	return slices.DeleteFunc(lines, func(line string) bool { return line == "" })
}

// aboutProviders returns sentences about the provider, and about each that was asked and does not serve the reservation.
func (a Asked) aboutProviders() (lines []string) {
	if a.Provider != nil {
		lines = explain.Quiet([]api.Envelope[api.Cluster]{*a.Provider})
	}
	if a.Reservation != nil {
		for _, t := range a.Reservation.Payload.Tried {
			lines = append(lines, explain.Tried(t))
		}
	}
	return lines
}

// newestEvents returns the Events that the page shows, the newest first.
func (a Asked) newestEvents() []explain.Event {
	out := slices.Clone(a.Events[max(0, len(a.Events)-perPage):])
	slices.Reverse(out)
	return out
}

func eventTone(e explain.Event) Tone {
	if e.Warning {
		return Warn
	}
	return Off
}

// stages returns how far the request is.
func (a Asked) stages(now time.Time) []explain.Stage {
	known := explain.Asked{Request: a.Request.Payload, Instructions: a.Instructions, Events: a.Events}
	if a.Reservation != nil {
		known.Reservation = &a.Reservation.Payload
	}
	return explain.Stages(known, now)
}

// stageTones are how stages are shown.
var stageTones = map[explain.Progress]Tone{explain.Done: OK, explain.Current: Wait, explain.Failed: Bad, explain.NotReached: Off}

// instruction returns that of a reservation; nil: there is none.
func (a Asked) instruction(id string) *api.ReservationInstruction {
	for i := range a.Instructions {
		if a.Instructions[i].Spec.Reservation == id {
			return &a.Instructions[i]
		}
	}
	return nil
}

// used returns what pods use of what the providers granted, by resource.
func (a Asked) used() []useOf {
	inUse, inAll := api.Resources{}, api.Resources{}
	for _, i := range a.Instructions {
		add(inUse, i.Status.Used)
		add(inAll, i.Status.Granted)
	}
	var out []useOf
	for _, name := range names(inAll) {
		used, granted := inUse[name], inAll[name]
		if granted.IsZero() {
			continue
		}
		out = append(out, useOf{resourceLabel(string(name)), used.AsApproximateFloat64(), granted.AsApproximateFloat64(),
			Amount(string(name), used) + " of " + Amount(string(name), granted)})
	}
	return out
}

// useOf is how much of an amount is in use.
type useOf struct {
	Label       string
	Used, Whole float64
	Text        string
}

// shared returns how many reservations of the cluster share a virtual node of the request: those of the most shared one.
func (a Asked) shared() (n int) {
	for _, i := range a.Instructions {
		n = max(n, i.Status.SharedBy)
	}
	return n
}

// usedByItsNamespaces says what the pods of the request's own namespaces use at its providers. Empty: it names no
// namespace, or that is not known.
func (a Asked) usedByItsNamespaces() string {
	o := a.Request.Payload.Offload
	if o == nil || len(a.Instructions) == 0 {
		return ""
	}
	used := api.Resources{}
	for _, i := range a.Instructions {
		for _, of := range i.Status.Namespaces {
			if slices.Contains(o.Namespaces, of.Name) {
				add(used, of.Used)
			}
		}
	}
	of := strings.Join(o.Namespaces, ", ")
	if len(used) == 0 {
		return "No pod of " + of + " uses this reservation."
	}
	return "Pods of " + of + " use " + Amounts(used) + " of this reservation."
}

func conditionTone(c metav1.Condition) Tone {
	switch c.Status {
	case metav1.ConditionTrue:
		return OK
	case metav1.ConditionFalse:
		return Warn
	}
	return Wait
}

// dueOf returns what is due so far, free for what has no price.
func dueOf(d api.Deal) string {
	switch {
	case d.Due != "":
		return d.Due
	case d.Status.Due != nil:
		return d.Status.Due.Amount
	case d.Status.Terms.Price == nil:
		return "free"
	}
	return "–"
}

func areDeleted(n int) string {
	if n == 1 {
		return "is deleted"
	}
	return "are deleted"
}

// over reports whether the request has ended without a provider, or after one.
func (a Asked) over() bool {
	s := a.Request.Payload.Status
	return s.Refused() || s.State != "" && s.State.Over()
}

// releaseWord is what the act is called that ends the request.
func (a Asked) releaseWord() string {
	if a.over() {
		return "Remove"
	}
	return "Release"
}

func (a Asked) whyTitle() string {
	if len(a.row().Provider) == 0 {
		return "Why no provider"
	}
	return "Why this provider"
}

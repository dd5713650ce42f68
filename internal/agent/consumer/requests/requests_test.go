package requests_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// desk is rome's controller of ResourceRequests, over an API server.
type desk struct {
	*borrower
	*requests.Controller
	recorder *events.FakeRecorder
}

// ourKinds are those that the controller reads and writes.
func ourKinds() (kinds []kubeapi.Type) {
	for kind, resource := range map[string]string{"ResourceRequest": "resourcerequests",
		"ReservationInstruction": "reservationinstructions"} {
		kinds = append(kinds, kubeapi.Type{GroupVersion: api.GroupVersion,
			Kind: kind, Resource: resource, Namespaced: true, Status: true})
	}
	return kinds
}

func newDesk(t *testing.T) *desk { return newDeskThatHides(t, 0) }

// newDeskThatHides returns a desk that hides for so long that a provider is asked.
func newDeskThatHides(t *testing.T, passing time.Duration) *desk {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(kubeapi.New(kubeapi.Options{Types: ourKinds()}).Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	b, recorder := newBorrower(t), events.NewFakeRecorder(100)
	return &desk{borrower: b, recorder: recorder,
		Controller: requests.New(requests.Options{Client: c, Market: b.Market, Events: recorder,
			Borrower: b.Borrower, Passing: passing})}
}

// create makes the request, as its user does.
func (d *desk) create(change func(*api.ResourceRequest)) *api.ResourceRequest {
	d.t.Helper()
	o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"},
		Spec: api.ResourceRequestSpec{Request: transporttest.Request("2")}}
	if change != nil {
		change(o)
	}
	if err := d.Create(d.t.(*testing.T).Context(), o); err != nil {
		d.t.Fatal(err)
	}
	wish := requests.WishOf(o)
	d.wish = &wish
	return o
}

// reconcile does what the controller does, and returns the request afterwards.
func (d *desk) reconcile() (*api.ResourceRequest, ctrl.Result) {
	d.t.Helper()
	ctx, key := d.t.(*testing.T).Context(), types.NamespacedName{Namespace: "default", Name: "r"}
	result, err := d.Reconcile(ctx, ctrl.Request{NamespacedName: key})
	if err != nil {
		d.t.Fatal(err)
	}
	var o api.ResourceRequest
	if err := client.IgnoreNotFound(d.Get(ctx, key, &o)); err != nil {
		d.t.Fatal(err)
	}
	return &o, result
}

// told checks the Events since the last call, each by a part of its text.
func (d *desk) told(parts ...string) {
	d.t.Helper()
	for _, part := range parts {
		select {
		case event := <-d.recorder.Events:
			if !strings.Contains(event, part) {
				d.t.Errorf("the Event %q says nothing of %q", event, part)
			}
		default:
			d.t.Errorf("no Event of %q", part)
		}
	}
	select {
	case event := <-d.recorder.Events:
		d.t.Errorf("one Event too many: %q", event)
	default:
	}
}

func (d *desk) reserved(o *api.ResourceRequest) bool {
	return meta.IsStatusConditionTrue(o.Status.Conditions, api.ConditionReserved)
}

// A namespace that no provider could name is refused before the broker is asked.
func TestANamespaceThatIsTooLong(t *testing.T) {
	d := newDesk(t)
	d.create(func(o *api.ResourceRequest) {
		o.Spec.Offload = &api.Offload{Namespaces: []string{strings.Repeat("n", 59)}}
	})
	o, result := d.reconcile()
	c := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReserved)
	if c == nil || c.Reason != string(api.CodeInvalid) ||
		!strings.Contains(o.Status.Message, "longer than 63 characters") || result.RequeueAfter != 0 {
		t.Errorf("%+v, %+v", o.Status, result)
	}
	d.wasAsked()
}

// The status shows that a provider is asked only if its answer takes long.
func TestAHoldThatPasses(t *testing.T) {
	d := newDeskThatHides(t, time.Second)
	d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	o, again := d.reconcile()
	if o.Status.State != "" || again.RequeueAfter <= 0 || again.RequeueAfter > d.Passing {
		t.Errorf("at once it shows %q, and is looked at again in %s", o.Status.State, again.RequeueAfter)
	}
	d.told()
	d.wasAsked("Reserve "+string(o.UID), "Confirm r-1")
	d.move(again.RequeueAfter)
	if o, again = d.reconcile(); o.Status.State != api.Held || again.RequeueAfter != requests.AnswerWithin-d.Passing {
		t.Errorf("after a while it shows %q, and is looked at again in %s", o.Status.State, again.RequeueAfter)
	}
	d.told("Held")
	d.hears(deal.Reserved(""))
	if o, _ = d.reconcile(); o.Status.State != api.Reserved {
		t.Errorf("it is %+v", o.Status)
	}
}

// A request leads to its instruction, and its deletion to the end.
func TestARequestOfKubernetes(t *testing.T) {
	d := newDesk(t)
	made := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	o, _ := d.reconcile()
	if o.Status.State != api.Held || o.Status.Reservation != "r-1" || o.Status.Provider != "milan" || d.reserved(o) {
		t.Errorf("it is %+v", o.Status)
	}
	d.wasAsked("Reserve "+string(made.UID), "Confirm r-1")
	d.told("Held")

	d.hears(deal.Reserved(""))
	o, _ = d.reconcile()
	if o.Status.State != api.Reserved || !d.reserved(o) || o.Status.Until == nil {
		t.Errorf("it is %+v", o.Status)
	}
	d.told("Reserved")
	var instruction api.ReservationInstruction
	if err := d.Get(t.Context(), types.NamespacedName{Namespace: "default", Name: "r-1"}, &instruction); err != nil {
		t.Fatal(err)
	}
	if instruction.Spec.Provider != "milan" || instruction.Status.State != api.Reserved ||
		!metav1.IsControlledBy(&instruction, o) {
		t.Errorf("the instruction is %+v", instruction)
	}
	before := o.ResourceVersion
	if o, _ = d.reconcile(); o.ResourceVersion != before {
		t.Error("it writes although nothing changed")
	}
	d.told()

	if err := d.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.reconcile()
	d.holds(api.Releasing, api.ReasonReleased)
}

// A new object with the name of an old one is another request: the old one is ended, the new one asked for.
func TestTheSameNameAgain(t *testing.T) {
	d := newDesk(t)
	first := d.create(nil)
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	d.reconcile()
	if err := d.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	second := d.create(nil)
	other := transporttest.NewDeal(d.rome, d.milan, "r-2", "2", d.now())
	d.offers(other.Shown)
	d.takes(other)
	d.broker.Asked()
	o, _ := d.reconcile()
	d.wasAsked("Reserve "+string(second.UID), "Confirm r-2")
	d.holds(api.Releasing, api.ReasonReleased)
	if o.Status.Reservation != "r-2" || o.Status.State != api.Held {
		t.Errorf("it is %+v", o.Status)
	}
}

// A request for eight bytes of memory lacks a unit: it is Rejected, and the broker is not asked.
func TestAmountWithoutUnit(t *testing.T) {
	d := newDesk(t)
	d.create(func(o *api.ResourceRequest) { o.Spec.Resources = api.Resources{"memory": resource.MustParse("8")} })
	o, _ := d.reconcile()
	d.wasAsked()
	if o.Status.State != api.Rejected || !strings.Contains(o.Status.Message, "8 is 8 bytes; write the unit, for example 8Gi") {
		t.Errorf("it is %+v", o.Status)
	}
}

// Only the annotation confirms a request that needs confirmation.
func TestTheAnnotationConfirms(t *testing.T) {
	d := newDesk(t)
	d.create(func(o *api.ResourceRequest) { o.Spec.Confirm = true })
	deal := d.deal()
	d.offers(deal.Shown)
	d.takes(deal)
	o, _ := d.reconcile()
	if !strings.Contains(o.Status.Message, api.ConfirmAnnotation) {
		t.Errorf("it does not say how to confirm: %q", o.Status.Message)
	}
	d.reconcile()
	d.wasAsked("Reserve " + string(o.UID))
	metav1.SetMetaDataAnnotation(&o.ObjectMeta, api.ConfirmAnnotation, "true")
	if err := d.Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	d.reconcile()
	d.wasAsked("Reserve "+string(o.UID), "Confirm r-1")
	d.reconcile()
	d.wasAsked()
	d.hears(deal.Reserved(""))
	if o, _ = d.reconcile(); o.Status.State != api.Reserved {
		t.Errorf("it is %+v", o.Status)
	}
}

// What the broker cannot do now is asked for again; what is invalid is not.
func TestWhatTheBrokerSays(t *testing.T) {
	for name, c := range map[string]struct {
		says  error
		again bool
	}{
		"it is away":           {transporttest.Away, true},
		"not a member yet":     {api.Errorf(api.CodeNotMember, "wait"), true},
		"no room left":         {api.Errorf(api.CodeInsufficient, "others were faster"), true},
		"nonsense":             {api.Invalid("where", "no"), false},
		"a key used before":    {api.Errorf(api.CodeKeyReused, "no"), false},
		"something else wrong": {errors.New("what?"), true},
		"too much":             {api.Errorf(api.CodeUnavailable, "%s", strings.Repeat("\x1b", 1<<20)), true},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.create(nil)
			d.broker.OnReserve = func(string, api.Request) (transport.Reservation,
				error) {
				return transport.Reservation{}, c.says
			}
			o, result := d.reconcile()
			if again := result.RequeueAfter > 0; again != c.again {
				t.Errorf("asked again: %v", result)
			}
			condition := meta.FindStatusCondition(o.Status.Conditions, api.ConditionReady)
			if condition == nil || condition.Reason != string(api.CodeOf(c.says)) ||
				len(o.Status.Message) > 2000 || strings.ContainsRune(o.Status.Message, '\x1b') {
				t.Errorf("it says %.200q, %+v", o.Status.Message, condition)
			}
		})
	}
}

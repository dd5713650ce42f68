package requests_test

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
	"github.com/bourse-dev/bourse/internal/agent/federation/session"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// counter is rome's controller with two brokers. Each holds what it is asked for, and no provider answers.
type counter struct {
	*requests.Controller
	*borrower
	client.Client
	unwritten bool // no status can be written
	asked     map[string]bool
}

func newCounter(t *testing.T) *counter {
	t.Helper()
	c, err := client.NewWithWatch(kubeapi.New(kubeapi.Options{Types: ourKinds()}).Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	b := newBorrower(t)
	desk := &counter{borrower: b, asked: map[string]bool{}}
	desk.Client = interceptor.NewClient(c, interceptor.Funcs{SubResourceApply: func(ctx context.Context,
		to client.Client, of string, o runtime.ApplyConfiguration, options ...client.SubResourceApplyOption) error {
		if desk.unwritten {
			return errors.New("the API server takes no status")
		}
		return to.SubResource(of).Apply(ctx, o, options...)
	}})
	b.broker.OnReserve = func(key string, _ api.Request) (transport.Reservation, error) {
		desk.asked[key] = true
		return *transporttest.NewDeal(b.rome, b.milan, "r-"+key, "1", b.now()).Shown(), nil
	}
	b.broker.OnConfirm = func(id, assignment string) (transport.Reservation, error) {
		return *transporttest.NewDeal(b.rome, b.milan, id, "1", b.now()).SignedAs(assignment), nil
	}
	desk.Controller = requests.New(requests.Options{Client: desk.Client, Market: b.Market,
		Events: events.NewFakeRecorder(100), Borrower: b.Borrower, Changed: &kubeobject.Trigger{},
		Places: places(func(s api.ResourceRequestSpec) (string, transport.Broker, error) {
			if s.Broker == "" {
				return "", b.broker, nil
			}
			return session.ViaBroker(s.Broker), b.broker, nil
		})})
	return desk
}

// serve makes a request of namespace noisy at a broker, if there is none of that name, and reports whether the
// broker was asked for it by now.
func (c *counter) serve(name, broker string) bool {
	c.t.Helper()
	ctx, key := context.Background(), types.NamespacedName{Namespace: "noisy", Name: name}
	o := &api.ResourceRequest{}
	if err := c.Client.Get(ctx, key, o); err != nil {
		o = &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec: api.ResourceRequestSpec{Request: transporttest.Request("1"), Broker: broker}}
		if err := c.Client.Create(ctx, o); err != nil {
			c.t.Fatal(err)
		}
	}
	if o.Spec.Broker != broker {
		o.Spec.Broker = broker
		if err := c.Client.Update(ctx, o); err != nil {
			c.t.Fatal(err)
		}
	}
	if _, err := c.Reconcile(ctx, ctrl.Request{NamespacedName: key}); (err != nil) != c.unwritten {
		c.t.Fatal(err)
	}
	return c.asked[string(o.UID)]
}

// fill makes requests at a broker until no more of them may wait for an answer.
func (c *counter) fill(prefix, broker string) (names []string) {
	c.t.Helper()
	for n := range requests.Unanswered {
		names = append(names, prefix+string(rune('a'+n)))
		if !c.serve(names[n], broker) {
			c.t.Fatalf("%s is not asked for", names[n])
		}
	}
	if c.serve(prefix+"-more", broker) {
		c.t.Fatal("more requests are asked for than may wait")
	}
	return names
}

// A request that fails after its provider was asked is tried again much later. It keeps no other from its turn.
func TestARequestThatFailsKeepsNoTurn(t *testing.T) {
	c := newCounter(t)
	c.unwritten = true
	for n := range requests.Unanswered {
		if name := string(rune('a' + n)); !c.serve(name, "") {
			t.Fatalf("%s is not asked for", name)
		}
	}
	c.unwritten = false
	if !c.serve("next", "") {
		t.Error("the next request still waits")
	}
}

// A request that waits at one broker, and then names another one, keeps no turn at the first.
func TestARequestThatMovesKeepsNoTurn(t *testing.T) {
	c := newCounter(t)
	first := c.fill("at-", "")
	c.fill("other-", "other")
	if c.serve("at--more", "other") {
		t.Fatal("a request that moves to a busy broker is asked for")
	}
	c.move(requests.AnswerWithin + time.Second)
	c.serve(first[0], "") // it passes its turn on
	for n := range requests.Unanswered - 1 {
		c.serve(first[n+1], "")
	}
	for n := range requests.Unanswered {
		if name := string(rune('a'+n)) + "-next"; !c.serve(name, "") {
			t.Errorf("%s still waits", name)
		}
	}
}

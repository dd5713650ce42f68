package kubernetes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/kubernetes"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// What every transport promises, through objects on both sides, and between one who comes that way
// and one who does not.
func TestConformance(t *testing.T) {
	t.Run("both through objects", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Pair {
			w := newFixture(t)
			rome, romes := w.join("rome")
			milan, milans := w.join("milan")
			return transporttest.Pair{
				Consumer: rome, ConsumersTransport: transport.NewHTTP("rome", romes),
				Provider: milan, ProvidersTransport: transport.NewHTTP("milan", milans),
			}
		})
	})
	t.Run("the consumer through objects", func(t *testing.T) {
		transporttest.Run(t, func(t *testing.T) transporttest.Pair {
			w := newFixture(t)
			rome, romes := w.join("rome")
			milan := w.Join("milan")
			return transporttest.Pair{
				Consumer: rome, ConsumersTransport: transport.NewHTTP("rome", romes),
				Provider: milan.Party, ProvidersTransport: transport.NewHTTP("milan", milan.Client),
			}
		})
	})
}

// reserved is a reservation of rome's at milan, who comes by REST.
func (w *fixture) reserved() (rome *transporttest.Party, romes transport.Broker, r transport.Reservation) {
	w.t.Helper()
	ctx := context.Background()
	milan := w.Join("milan")
	milan.Advertise("8")
	rome, line := w.join("rome")
	romes = transport.NewHTTP("rome", line)
	r = must(romes.Reserve(ctx, "key", transporttest.Request("2")))(w.t)
	r = must(romes.Confirm(ctx, r.ID, rome.Assign(r)))(w.t)
	return rome, romes, must(milan.Accept(ctx, r.ID, milan.Agree(r)))(w.t)
}

// The objects show the state of the market, also after others changed them.
func TestPicture(t *testing.T) {
	w := newFixture(t)
	_, _, r := w.reserved()
	shown := kubernetes.Object(kubernetes.Reservations, kubernetes.Namespace("rome"), r.ID)
	right := func() error {
		u, err := w.object(kubernetes.Object(kubernetes.Reservations, shown.GetNamespace(), r.ID))
		if err != nil {
			return err
		}
		var spec struct{ RequesterID, TargetClusterID string }
		var status struct {
			Phase       string
			Reservation api.Reservation
		}
		if err := kubernetes.Part(u, "spec", &spec); err != nil {
			return err
		}
		if err := kubernetes.Part(u, "status", &status); err != nil {
			return err
		}
		if spec.RequesterID != "rome" || spec.TargetClusterID != "milan" || status.Phase != "Reserved" ||
			status.Reservation.State != api.Reserved || status.Reservation.Acceptance == "" {
			return errNotYet
		}
		return nil
	}
	w.eventually("it is shown", right)
	w.patch(shown, map[string]any{"status": map[string]any{"phase": "Released",
		"reservation": map[string]any{"state": "Released"}}}, true)
	w.eventually("a lie is put right", right)
	w.patch(shown, map[string]any{"spec": map[string]any{"requesterID": "oslo"}}, false)
	w.eventually("another's name is put right", right)
	if err := w.kube.Delete(context.Background(), shown); err != nil {
		t.Fatal(err)
	}
	w.eventually("what was deleted is shown again", right)
	w.stop()
	w.patch(shown, map[string]any{"spec": map[string]any{"requesterID": "oslo"}}, false)
	invented := kubernetes.Object(kubernetes.Reservations, shown.GetNamespace(), "r-invented")
	if err := w.kube.Create(context.Background(), invented); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.eventually("what was changed while the broker was away is put right", right)
	w.eventually("what was invented is gone", func() error {
		if _, err := w.object(kubernetes.Object(kubernetes.Reservations,
			shown.GetNamespace(), "r-invented")); ctrlclient.IgnoreNotFound(err) != nil || err == nil {
			return errNotYet
		}
		return nil
	})
	if here := w.status("rome"); here.Member != api.MemberActive || here.Cluster == nil || here.Message != "" {
		t.Errorf("%+v", here)
	}
}

// A call that was not answered when the broker stopped is made when it is back; a watch is resumed.
func TestTheBrokerStartsAgain(t *testing.T) {
	w := newFixture(t)
	_, romes, r := w.reserved()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute) // longer than eventually waits
	defer cancel()
	tokens, ended := make(chan string, 100), make(chan error, 1)
	follow := func(token string) {
		ended <- romes.Watch(ctx, token, func(e api.WatchEvent) error {
			if e.Type == api.WatchBookmark {
				tokens <- e.Token
			}
			return nil
		})
	}
	go follow("")
	token := <-tokens
	w.stop()
	answered := make(chan error, 1)
	go func() {
		all, err := romes.Reservations(ctx)
		if err == nil && (len(all) != 1 || all[0].ID != r.ID) {
			err = fmt.Errorf("%d reservations", len(all))
		}
		answered <- err
	}()
	w.eventually("the call lies there", func() error {
		u, err := w.advertisement("rome")
		if err != nil {
			return err
		}
		var spec kubernetes.Spec
		if err := kubernetes.Part(u, "spec", &spec); err != nil {
			return err
		}
		for id, c := range spec.Calls {
			if _, answered := w.status("rome").Answers[id]; !answered && c.Path == api.Prefix+"/reservations?" {
				return nil
			}
		}
		return errNotYet
	})
	w.serve()
	if err := <-answered; err != nil {
		t.Error(err)
	}
	if err := <-ended; api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("the watch ended with %v", err)
	}
	go follow(token)
	<-tokens
	cancel()
	<-ended
}

// An answer that is longer than a piece arrives whole, wherever it is cut.
func TestALongAnswer(t *testing.T) {
	w := newFixture(t)
	_, line := w.join("rome")
	const n = 100
	for i := range n {
		m := w.Join(fmt.Sprintf("city-%02d", i))
		m.ShowCard(api.Properties{Region: strings.Repeat("ö", 60), Labels: map[string]string{"a": strings.Repeat("€", 60)}})
		m.Advertise("8")
	}
	all, err := line.Clusters(context.Background())
	if err != nil || len(all) != n+1 {
		t.Fatalf("%d clusters, %v", len(all), err)
	}
	size := 0
	for _, c := range all {
		size += len(c.Payload.Card)
		if c.ID != "rome" && c.Payload.Properties.Region != strings.Repeat("ö", 60) {
			t.Errorf("%s is in %q", c.ID, c.Payload.Properties.Region)
		}
	}
	if size < 2*kubernetes.MaxPiece {
		t.Errorf("the answer has %d bytes: too short to test anything", size)
	}
}

// A caller that stops waiting for an answer leaves nothing behind.
func TestNothingStaysBehind(t *testing.T) {
	w := newFixture(t)
	_, line := w.join("rome")
	for range 30 {
		if _, err := line.Clusters(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	_ = line.Watch(ctx, "", func(e api.WatchEvent) error {
		if e.Type == api.WatchBookmark {
			cancel()
		}
		return nil
	})
	w.eventually("its watch is taken away", func() error {
		if left := w.status("rome").Answers; len(left) > 1 {
			return fmt.Errorf("%d answers", len(left))
		}
		return nil
	})
	if err := line.PutCard(context.Background(), "rome",
		strings.Repeat("x", kubernetes.MaxBody)); api.CodeOf(err) != api.CodeTooLarge {
		t.Errorf("a call that is too long: %v", err)
	}
}

// Where the broker does not serve objects, or the namespace is another's, the error says what to do.
func TestNobodyAnswers(t *testing.T) {
	w := newFixture(t)
	_, err := w.line("rome").Clusters(context.Background())
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.CodeUnavailable ||
		!strings.Contains(e.Error(), "bourse-member-rome") {
		t.Errorf("%v", err)
	}
}

// Where the cluster with the objects is away, calls end soon, watches too; and it goes on when it is back.
func TestTheClusterIsAway(t *testing.T) {
	w := newFixture(t)
	_, line := w.join("rome")
	ended, begun := make(chan error, 1), make(chan struct{}, 1)
	go func() {
		ended <- line.Watch(context.Background(), "", func(e api.WatchEvent) error {
			if e.Type == api.WatchBookmark {
				begun <- struct{}{}
			}
			return nil
		})
	}()
	<-begun
	w.cluster.Disconnect()
	if _, err := line.Clusters(context.Background()); err != nil {
		t.Errorf("after its watches ended: %v", err)
	}
	w.cluster.Down(true)
	select {
	case err := <-ended:
		if api.CodeOf(err) != api.CodeUnavailable {
			t.Errorf("the watch ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on without a cluster")
	}
	if _, err := line.Clusters(context.Background()); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("a call: %v", err)
	}
	w.cluster.Down(false)
	w.eventually("calls are answered again", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_, err := line.Clusters(ctx)
		return err
	})
}

package sharing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/provider/sharing"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
)

// anyTexts are values that a field can hold, also by mistake.
var anyTexts = []string{
	"gold\n", strings.Repeat("x", 300), "\u202eevil", "\x00", "no\tway", "ä", strings.Repeat("ä", 256), "a/b c", "", "plain",
}

// A text that the agent puts into force is one that the broker takes: in each field of a SharingPolicy.
func TestABrokerTakesWhatAPolicyMaySay(t *testing.T) {
	federation := servertest.Start(t, servertest.Options{})
	milan := federation.Join("milan")
	number := time.Now().AddDate(1, 0, 0).UnixMicro() // later than the first card
	takes := func(s *api.Sharing) error {
		number++
		card := api.Card{Cluster: "milan", Key: milan.Key.Public().String(), Number: number}
		card = sharing.CardOf(card, s)
		signed, err := milan.Key.Sign(api.DocumentCard, card)
		if err != nil {
			return err
		}
		m := api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &s.Terms, Pools: map[string]api.Pool{}}
		for _, p := range s.Pools {
			m.Pools[p.Name] = api.Pool{}
		}
		return errors.Join(milan.PutCard(t.Context(), "milan", signed), transport.NewHTTP("milan", milan.Client).Advertise(t.Context(), m))
	}
	whole := func() *api.Sharing {
		return &api.Sharing{
			Terms: api.Terms{Allow: "true", VisibleTo: api.Audience{
				Clusters: []string{"rome"}, Labels: map[string]string{"tier": "gold"}}},
			Labels: map[string]string{"tier": "gold"}, Pools: []api.PoolPolicy{{Name: api.GeneralPool}},
		}
	}
	if err := errors.Join(sharing.Check(whole()), takes(whole())); err != nil {
		t.Fatal(err)
	}
	refused := map[string]int{}
	for _, bad := range anyTexts {
		for at := range texts(reflect.ValueOf(whole()).Elem(), "", bad) {
			policy := whole()
			for path, set := range texts(reflect.ValueOf(policy).Elem(), "", bad) {
				if path == at {
					set()
				}
			}
			if err := sharing.Check(policy); err != nil {
				refused[at]++
			} else if err := takes(policy); err != nil {
				t.Errorf("%s: %.20q is in force here, and the broker says: %s", at, bad, err)
			}
		}
	}
	for _, at := range []string{".Labels", ".Labels name", ".Pools.Name"} {
		if refused[at] == 0 || refused[at] == len(anyTexts) {
			t.Errorf("%s: %d of %d texts are refused", at, refused[at], len(anyTexts))
		}
	}
}

// texts yields each text in a value, with what sets it to another.
func texts(v reflect.Value, at, to string) map[string]func() {
	out := map[string]func(){}
	switch v.Kind() {
	case reflect.String:
		out[at] = func() { v.SetString(to) }
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				maps.Copy(out, texts(v.Field(i), at+"."+f.Name, to))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			maps.Copy(out, texts(v.Index(i), at, to))
		}
	case reflect.Map:
		if v.Type() == reflect.TypeFor[map[string]string]() && !v.IsNil() {
			labels := v.Interface().(map[string]string)
			out[at] = func() { labels[slices.Sorted(maps.Keys(labels))[0]] = to }
			out[at+" name"] = func() { labels[to] = "value" }
		}
	default: // no text
	}
	return out
}

// A broker that refuses the card still gets the terms, which hide what is hidden. The SharingPolicy, the doctor
// and the Advertisement say what it refuses, and no longer when it takes it.
func TestACardThatIsRefusedKeepsNothingVisible(t *testing.T) {
	l := newLender(t)
	refuses := make(chan error, 1)
	refuses <- api.Invalid("properties.labels", "%q cannot be shown", "gold\n").Fix("use printable characters")
	l.onCard = func(string) error {
		err := <-refuses
		refuses <- err
		return err
	}
	var policy api.SharingPolicy
	at := client.ObjectKey{Name: "default"}
	if err := l.client.Get(t.Context(), at, &policy); err != nil {
		t.Fatal(err)
	}
	policy.Spec.VisibleTo.Clusters = []string{"rome"}
	if err := l.client.Update(t.Context(), &policy); err != nil {
		t.Fatal(err)
	}
	sent := l.advertises(func(api.Measurement) error { return nil })
	next(t, sent, "to whom it is visible", func(m api.Measurement) bool {
		return m.Terms != nil && slices.Equal(m.Terms.VisibleTo.Clusters, []string{"rome"})
	})
	shown := func(want metav1.ConditionStatus) func(api.Measurement) bool {
		return func(api.Measurement) bool {
			if _, err := l.policy.Reconcile(t.Context(), sharing.ReconcileDefault); err != nil {
				t.Fatal(err)
			}
			if err := l.client.Get(context.Background(), at, &policy); err != nil {
				t.Fatal(err)
			}
			ready := meta.FindStatusCondition(policy.Status.Conditions, api.ConditionReady)
			isNamed := strings.Contains(fmt.Sprint(ready), "properties.labels") && len(l.policy.Refusals()) == 1
			return ready.Status == want && isNamed == (want == metav1.ConditionFalse)
		}
	}
	next(t, sent, "that the card is refused", shown(metav1.ConditionFalse))
	<-refuses
	refuses <- nil
	next(t, sent, "that the card is taken", shown(metav1.ConditionTrue))
}

// A broker that is away refuses nothing.
func TestABrokerThatIsAwayRefusesNothing(t *testing.T) {
	l := newLender(t)
	sent := l.advertises(func(api.Measurement) error { return api.Errorf(api.CodeUnavailable, "it is away") })
	for range 2 { // the second begins after the first was noted
		next(t, sent, "anything", func(api.Measurement) bool { return true })
	}
	if found := l.policy.Refusals(); len(found) > 0 {
		t.Errorf("refused: %v", found)
	}
}

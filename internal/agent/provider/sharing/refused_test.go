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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
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
	milan, nodes := federation.Join("milan"), newInventory(t)
	number := time.Now().AddDate(1, 0, 0).UnixMicro() // later than the first card
	takes := func(s *api.Sharing) error {
		number++
		found := nodes.Measure(s.Pools, nil, s.GPULabels...)
		card := api.Card{Cluster: "milan", Key: milan.Key.Public().String(), Number: number, Properties: found.Properties}
		signed, err := milan.Key.Sign(api.DocumentCard, sharing.CardOf(card, s))
		if err != nil {
			return err
		}
		m := api.Measurement{Sequence: api.Sequence{Incarnation: 1, Number: number}, Terms: &s.Terms, Pools: found.Pools}
		return errors.Join(milan.PutCard(t.Context(), "milan", signed), transport.NewHTTP("milan", milan.Client).Advertise(t.Context(), m))
	}
	refused, walked := map[string]int{}, map[string]bool{}
	for _, whole := range []func() *api.Sharing{wholePolicy, wholeHub} {
		if err := errors.Join(sharing.Check(whole()), takes(whole())); err != nil {
			t.Fatal(err)
		}
		for at := range texts(reflect.ValueOf(whole()), "", "") {
			walked[at] = true
			for _, bad := range anyTexts {
				policy := whole()
				texts(reflect.ValueOf(policy), "", bad)[at]()
				if err := sharing.Check(policy); err != nil {
					refused[at]++
				} else if err := takes(policy); err != nil {
					t.Errorf("%s: %.20q is in force here, and the broker says: %s", at, bad, err)
				}
			}
		}
	}
	for _, at := range []string{".Labels", ".Labels name", ".Pools.Name", ".Terms.MaxPerConsumer name"} {
		if refused[at] == 0 || refused[at] == len(anyTexts) {
			t.Errorf("%s: %d of %d texts are refused", at, refused[at], len(anyTexts))
		}
	}
	for _, at := range textsOf(reflect.TypeFor[api.Sharing](), "") {
		if !walked[at] {
			t.Errorf("neither policy of the test has the field %s", at)
		}
	}
}

// wholePolicy has every field but the virtual nodes of a hub.
func wholePolicy() *api.Sharing {
	eight := api.Resources{"cpu": resource.MustParse("8")}
	day := &metav1.Duration{Duration: 24 * time.Hour}
	return &api.Sharing{
		Terms: api.Terms{Trust: api.TrustLegacy, Allow: "true", ApproveWithin: day, MaxDuration: day,
			MaxPerReservation: eight.DeepCopy(), MaxPerConsumer: eight.DeepCopy(),
			VisibleTo: api.Audience{Clusters: []string{"rome"}, Labels: map[string]string{"tier": "gold"}}},
		OnRevoke: api.RevokeCordon, Network: api.NetworkWireGuard, APIServerAccess: api.APIServerNetwork,
		ResourcePlugin: "old.example:6000", Labels: map[string]string{"tier": "gold"},
		GPULabels: []string{"example.com/npu.model"}, Brokers: []string{"north"},
		Namespaces: &api.NamespacePolicy{PodSecurity: api.PodSecurityRestricted, Max: 8, Quota: eight.DeepCopy(),
			Network: api.NetworkOpen, Except: []string{"192.0.2.0/24"}, Annotations: []string{"lb.example/kind"}},
		Pools: []api.PoolPolicy{{
			Name: api.GeneralPool, NodeSelector: map[string]string{"lent": "true"}, TolerateTaints: []string{"lent"},
			PlainConsumers: []api.PlainConsumer{{Cluster: "oslo", Slice: "plain", Max: eight.DeepCopy()}},
			Percentage:     ptr.To[int32](50), Caps: eight.DeepCopy(), Headroom: eight.DeepCopy(), Resources: []string{"cpu"},
			Storage: ptr.To(resource.MustParse("1Ti")), StorageClasses: []string{"fast"}, IngressClasses: []string{"nginx"},
			LoadBalancerClasses: []string{"small"}, RuntimeClasses: []string{"nvidia"},
			//lint:ignore SA1019 a policy of a former version may have it
			Placeholders: &api.Placeholders{PriorityClass: "low", Image: "pause"},
		}},
	}
}

// wholeHub lends what it borrows.
func wholeHub() *api.Sharing {
	return &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, VirtualNodes: &api.VirtualNodes{
		Selector: api.VirtualNodeSelector{MatchLabels: map[string]string{"lent": "true"}},
		ByHand:   []api.HandMadeNode{{Node: "liqo-oslo", Max: api.Resources{"cpu": resource.MustParse("8")}}},
	}}}}
}

// texts yields each text in a value, with what sets it to another.
func texts(v reflect.Value, at, to string) map[string]func() {
	out := map[string]func(){}
	switch v.Kind() {
	case reflect.Pointer:
		return texts(v.Elem(), at, to)
	case reflect.String:
		out[at] = func() { v.SetString(to) }
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); hasTexts(v.Type()) {
				maps.Copy(out, texts(v.Field(i), at+"."+f.Name, to))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			maps.Copy(out, texts(v.Index(i), at, to))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := v.MapIndex(key)
			if out[at+" name"] = func() { v.SetMapIndex(reflect.ValueOf(to).Convert(key.Type()), value) }; value.Kind() == reflect.String {
				out[at] = func() { v.SetMapIndex(key, reflect.ValueOf(to)) }
			}
		}
	default: // no text
	}
	return out
}

// textsOf returns where a value of a type can have texts, as texts names them.
func textsOf(of reflect.Type, at string) (out []string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice:
		return textsOf(of.Elem(), at)
	case reflect.String:
		return []string{at}
	case reflect.Struct:
		for field := range of.Fields() {
			if hasTexts(of) {
				out = append(out, textsOf(field.Type, at+"."+field.Name)...)
			}
		}
	case reflect.Map:
		if out = []string{at + " name"}; of.Elem().Kind() == reflect.String {
			out = append(out, at)
		}
	default: // no text
	}
	return out
}

// hasTexts reports whether a struct may have texts of an admin: amounts and times are read before.
func hasTexts(of reflect.Type) bool { return of.PkgPath() == reflect.TypeFor[api.Sharing]().PkgPath() }

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
	key := client.ObjectKey{Name: "default"}
	if err := l.client.Get(t.Context(), key, &policy); err != nil {
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
			if err := l.client.Get(context.Background(), key, &policy); err != nil {
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

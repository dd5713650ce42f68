package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/federation"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// simulated is a simulated API server with our kinds, and an admin's client.
func simulated(t *testing.T) (*rest.Config, kube.Client) {
	t.Helper()
	config := kubeapi.New(kubeapi.Options{Types: federation.Kinds()}).Config()
	admin, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return config, admin
}

func merge(patch string) kube.Patch { return kube.RawPatch(types.MergePatchType, []byte(patch)) }

// An act names an object as the user saw it: another's annotation meanwhile stays, and another's edit refuses it.
func TestPatchesAreOfWhatWasSeen(t *testing.T) {
	for name, c := range map[string]struct {
		before, meanwhile string
		refused           bool
		annotations       string // what others wrote
	}{
		"nothing happens":              {`{}`, `{}`, false, ""},
		"the first annotation":         {`{}`, `{"metadata":{"annotations":{"a":"1"}}}`, false, "a"},
		"another annotation":           {`{"metadata":{"annotations":{"b":"1"}}}`, `{"metadata":{"annotations":{"a":"1"}}}`, false, "a"},
		"an edit of the spec":          {`{}`, `{"spec":{"suspend":true}}`, true, ""},
		"a write of the status":        {`{}`, `{"status":{"message":"x"}}`, false, ""},
		"an edit beside an annotation": {`{}`, `{"metadata":{"annotations":{"a":"1"}},"spec":{"suspend":true}}`, true, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			config, admin := simulated(t)
			object := &api.Peer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "milan"}}
			object.Spec.Address = "milan.example:7444"
			if err := admin.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
			if err := admin.Patch(t.Context(), object, merge(c.before)); err != nil {
				t.Fatal(err)
			}
			seen := object.DeepCopy()
			if err := admin.Patch(t.Context(), object, merge(c.meanwhile)); err != nil {
				t.Fatal(err)
			}
			user, err := cluster.New(config)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			err = cluster.Annotate(ctx, user, seen, "bourse.dev/evict", "x")
			if refused := api.CodeOf(err) == api.CodeConflict; err != nil && !refused || refused != c.refused {
				t.Errorf("it is answered %v", err)
			}
			if c.refused && !strings.Contains(err.Error(), "ChangedSince") {
				t.Errorf("it says %v", err)
			}
			if err := admin.Get(t.Context(), kube.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			if (object.Annotations["bourse.dev/evict"] == "x") == c.refused || c.annotations != "" && object.Annotations[c.annotations] != "1" {
				t.Errorf("its annotations are %v", object.Annotations)
			}
			if object.Spec.Address != "milan.example:7444" {
				t.Errorf("its spec is %+v", object.Spec)
			}
		})
	}
}

// What another admin changes while an offer is open in an editor is not overwritten.
func TestAnEditOfWhatChanged(t *testing.T) {
	config, admin := simulated(t)
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	spec := api.OfferSpec{Type: "compute", Plans: []api.Plan{{Name: "small", Quantity: 1,
		Resources: api.Resources{"cpu": resource.MustParse("1")}}}}
	object := &api.Offer{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "web",
		Labels: map[string]string{api.AnswersLabel: "web", "mine": "1"}}, Spec: spec}
	if err := admin.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	edit := func(meanwhile func() error) error {
		_, err := user.EditOffer(ctx, "web", func(s *api.OfferSpec) error {
			s.Description = "edited"
			return meanwhile()
		})
		return err
	}
	for name, meanwhile := range map[string]func() error{
		"changed": func() error { return admin.Patch(ctx, object, merge(`{"spec":{"draft":true}}`)) },
		"made again": func() error {
			if err := admin.Delete(ctx, object); err != nil {
				return err
			}
			object.ResourceVersion, object.UID = "", ""
			return admin.Create(ctx, object)
		},
	} {
		if err := edit(meanwhile); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "ChangedSince") {
			t.Errorf("an edit of one that was %s: %v", name, err)
		}
		if err := admin.Get(ctx, kube.ObjectKeyFromObject(object), object); err != nil || object.Spec.Description != "" {
			t.Errorf("%s: it is overwritten: %+v, %v", name, object.Spec, err)
		}
	}
	object.Spec = spec
	if err := admin.Update(ctx, object); err != nil {
		t.Fatal(err)
	}
	if err := edit(func() error { return admin.Patch(ctx, object, merge(`{"metadata":{"annotations":{"a":"1"}}}`)) }); err != nil {
		t.Errorf("an edit beside an annotation: %v", err)
	}
	if err := admin.Get(ctx, kube.ObjectKeyFromObject(object), object); err != nil || object.Spec.Description != "edited" ||
		object.Annotations["a"] != "1" || object.Annotations["bourse.dev/publish-again"] == "" {
		t.Errorf("it is %+v, %v", object, err)
	}
	if _, answers := object.Labels[api.AnswersLabel]; answers || object.Labels["mine"] != "1" {
		t.Errorf("an offer that was changed by hand has the labels %v", object.Labels)
	}
	if _, err := user.EditOffer(ctx, "none", nil); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("an edit of what does not exist: %v", err)
	}
}

// Two changes of fields of a Broker are both made.
func TestEditsOfABroker(t *testing.T) {
	config, admin := simulated(t)
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	north := &api.Broker{ObjectMeta: metav1.ObjectMeta{Namespace: api.Namespace, Name: "north"}, Spec: api.BrokerSpec{Join: "token"}}
	if err := admin.Create(t.Context(), north); err != nil {
		t.Fatal(err)
	}
	for _, change := range []func(*api.BrokerSpec){
		func(b *api.BrokerSpec) { b.URL = "https://north.example:7443" },
		func(b *api.BrokerSpec) { b.Disabled = true },
	} {
		if _, err := user.EditBroker(t.Context(), "north", change); err != nil {
			t.Fatal(err)
		}
	}
	object := &api.Broker{}
	err = admin.Get(t.Context(), kube.ObjectKey{Namespace: api.Namespace, Name: "north"}, object)
	if want := (api.BrokerSpec{Join: "token", URL: "https://north.example:7443", Disabled: true}); err != nil || object.Spec != want {
		t.Errorf("it is %+v, %v", object.Spec, err)
	}
}

// A user who writes is told once, before the first write, and not before a read.
func TestTellsBeforeAWrite(t *testing.T) {
	config, _ := simulated(t)
	user, err := cluster.New(config)
	if err != nil {
		t.Fatal(err)
	}
	told := 0
	user.BeforeWrite(func(context.Context) { told++ })
	if _, err := user.Peers(t.Context()); err != nil || told != 0 {
		t.Errorf("a read tells it %d times, %v", told, err)
	}
	for range 2 {
		if _, err := user.Suspend(t.Context(), "milan", ""); err != nil || told != 1 {
			t.Errorf("the user is told %d times, %v", told, err)
		}
	}
}

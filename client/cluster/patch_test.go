package cluster_test

import (
	"context"
	"strings"
	"testing"
	"time"

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

package install

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
)

// Init applies what config/agent has. Without answers of the admin it changes nothing but the
// namespace and the image.
func TestInstallationIsConfigAgent(t *testing.T) {
	var documents [][]byte
	for _, file := range []string{"namespace.yaml", "deployment.yaml"} {
		data, err := os.ReadFile("../../../../config/agent/" + file)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, bytes.Split(data, []byte("\n---\n"))...)
	}
	want := []client.Object{&corev1.Namespace{}, &appsv1.Deployment{}, &policyv1.PodDisruptionBudget{}}
	got := Installation{Namespace: api.Namespace, Image: "bourse"}.Objects()
	if len(documents) != len(want) || len(got) != len(want) {
		t.Fatalf("%d documents, %d objects", len(documents), len(got))
	}
	for i := range want {
		if err := yaml.UnmarshalStrict(documents[i], want[i]); err != nil {
			t.Fatal(err)
		}
		a, err := Manifest(want[i])
		if err != nil {
			t.Fatal(err)
		}
		b, err := Manifest(got[i])
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a.Object, b.Object); diff != "" {
			t.Errorf("config/agent -, init +\n%s", diff)
		}
	}
}

// kubectl apply accepts what init prints: a strict reader reads the same objects back.
func TestManifestsAreReadBack(t *testing.T) {
	i := Installation{Namespace: "elsewhere", Image: "registry.example/bourse:1",
		Join: "token", Args: []string{"--cluster-id=rome"}, Connector: true,
		Sharing: &api.Sharing{Pools: []api.PoolPolicy{{Name: api.GeneralPool, Percentage: new(int32(50))}}}}
	objects := i.Objects()
	if len(objects) != 5 {
		t.Fatalf("%d objects", len(objects))
	}
	for _, o := range objects {
		fields, err := Manifest(o)
		if err != nil {
			t.Fatal(err)
		}
		data, err := yaml.Marshal(fields.Object)
		if err != nil || strings.Contains(string(data), "null") || fields.GetKind() == "" {
			t.Errorf("%s %v", data, err)
		}
		kind := fields.GroupVersionKind()
		again, err := scheme.New().New(kind)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.UnmarshalStrict(data, again); err != nil {
			t.Errorf("%s: %v", data, err)
		}
		o.GetObjectKind().SetGroupVersionKind(kind)
		if diff := cmp.Diff(o, again); diff != "" {
			t.Errorf("%s", diff)
		}
	}
}

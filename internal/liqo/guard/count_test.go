package guard

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
)

// A quota is no more than the grant, by the names that Kubernetes has for what pods request.
func TestQuotaIsTheGrant(t *testing.T) {
	hard := corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1000"),
		"requests.memory": resource.MustParse("1Gi"), corev1.ResourceRequestsStorage: resource.MustParse("5Gi")}
	limit(hard, api.Resources{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
		"nvidia.com/gpu": resource.MustParse("1"), corev1.ResourceStorage: resource.MustParse("50Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("2Gi"),
	})
	for name, want := range map[corev1.ResourceName]string{
		corev1.ResourcePods: "110", "requests.cpu": "4", "requests.memory": "1Gi", "requests.nvidia.com/gpu": "1", corev1.ResourceRequestsStorage: "5Gi", "requests.ephemeral-storage": "2Gi",
	} {
		if has := hard[name]; has.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("%s is %s, want %s", name, has.String(), want)
		}
	}
	if len(hard) != 6 {
		t.Errorf("%v", hard)
	}
}

// What is counted in all namespaces of a consumer is bounded together: who has used most of it
// elsewhere gets the rest.
func TestCountsAreShared(t *testing.T) {
	mapped := func(name, consumer string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{"liqo.io/remote-cluster-id": consumer}}}
	}
	uses := func(namespace string, what corev1.ResourceName, amount string) *corev1.ResourceQuota {
		return &corev1.ResourceQuota{ObjectMeta: object(namespace),
			Status: corev1.ResourceQuotaStatus{Used: corev1.ResourceList{what: resource.MustParse(amount)}}}
	}
	own := mapped("own", "rome")
	for name, c := range map[string]struct {
		what           corev1.ResourceName
		one, two, want string
	}{
		"there is enough": {countSecrets, "200", "150", "200"}, "the rest": {countSecrets,
			"200", "300", "100"}, "nothing is left": {countSecrets, "300", "301", "0"},
		"Services are shared, too": {corev1.ResourceServices, "100", "170", "30"},
	} {
		g := &Guard{Client: fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(own,
			mapped("one", "rome"), mapped("two", "rome"), mapped("other", "paris"),
			uses("own", c.what, "99"), uses("one", c.what, c.one), uses("two",
				c.what, c.two), uses("other", c.what, "999")).Build()}
		g.Granted = func(ctx context.Context, _ string) (api.Resources, error) { return nil, nil }
		q := quota(own.Name, policyOf(nil))
		if err := g.count(t.Context(), own, q); err != nil {
			t.Fatal(err)
		}
		if has := q.Spec.Hard[c.what]; has.String() != c.want {
			t.Errorf("%s: %s, want %s", name, has.String(), c.want)
		}
		if has := q.Spec.Hard[countShadowPods]; has.String() != "1k" && has.String() != "1000" {
			t.Errorf("%s ShadowPods", has.String())
		}
	}
}

package posture

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
)

// Each policy is bound, to the list of consumers unless it is for everybody, and denies; none is
// left out of what is compared.
func TestPoliciesAreBound(t *testing.T) {
	ours, err := wanted()
	if err != nil || len(ours.policies) != 20 || len(ours.bindings) != len(ours.policies) {
		t.Fatalf("%d policies, %d bindings, %v", len(ours.policies), len(ours.bindings), err)
	}
	ofEverybody := []string{"bourse-agent", "bourse-certificates", "bourse-claims", "bourse-guard", "bourse-hub-events", "bourse-hub-pods",
		"bourse-namespacemap", "bourse-pod-amounts", "bourse-pool-requests", "bourse-reflected-secrets", "bourse-shared-options",
		"bourse-slice-amounts", "bourse-virtualnodes"}
	for i, b := range ours.bindings {
		missing := admissionv1.DenyAction
		if b.Name == "bourse-deletions" { // without the list, nobody is kept from deleting
			missing = admissionv1.AllowAction
		}
		if b.Name != ours.policies[i].Name || b.Spec.PolicyName != b.Name || !slices.Contains(ofEverybody, b.Name) &&
			(b.Spec.ParamRef.Name != consumers || *b.Spec.ParamRef.ParameterNotFoundAction != missing) {
			t.Errorf("binding %s is %+v", b.Name, b.Spec)
		}
		if p := ours.policies[i].Spec; *p.FailurePolicy != "Fail" || len(p.Validations) == 0 {
			t.Errorf("policy %s is %+v", b.Name, p)
		}
	}
}

// An agent that may not watch the policies, because its rights are of an older version, says so and
// how to mend it.
func TestPoliciesThatCannotBeWatched(t *testing.T) {
	cache := interceptor.NewClient(nil, interceptor.Funcs{Get: func(context.Context,
		client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return apierrors.NewTimeoutError("failed waiting for the informer to sync", 0)
	}})
	err := (&Policies{Known: cache}).Stand(t.Context())
	if api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "cannot be watched") {
		t.Errorf("%v", err)
	}
}

// What a consumer's agent says of annotations is what the policies refuse.
func TestAnnotationsAsThePoliciesHaveThem(t *testing.T) {
	ours, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for _, p := range ours.policies {
		for _, v := range p.Spec.Variables {
			if v.Name != "nodeDomains" && v.Name != "nodeKeys" {
				continue
			}
			for _, key := range regexp.MustCompile("'([^']+)'").FindAllStringSubmatch(v.Expression, -1) {
				looked++
				if !offload.ActsAtNodes(key[1] + "/x") {
					t.Errorf("%s: %s", v.Name, key[1])
				}
			}
		}
	}
	if looked < 20 {
		t.Errorf("looked at %d", looked)
	}
}

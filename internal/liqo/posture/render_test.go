package posture

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// The policies name the agent's namespace and account wherever they mean them, and nothing else changes. The word
// bourse stays as Liqo's class of slices and as the label of what Bourse made.
func TestRender(t *testing.T) {
	if !bytes.Equal(Render("bourse", "bourse-agent"), manifest) {
		t.Error("for the agent of config/liqo they differ from the file")
	}
	other := string(Render("platform-x", "lender"))
	for _, left := range regexp.MustCompile(`.*('bourse'|bourse-agent'|namespace: bourse\b|namespace bourse\b).*`).FindAllString(other, -1) {
		if !strings.Contains(left, "class == 'bourse'") && !strings.Contains(left, "managed-by'].orValue('')") {
			t.Errorf("it names the usual namespace or account: %s", left)
		}
	}
	all, err := read([]byte(other))
	if err != nil {
		t.Fatal(err)
	}
	usual, err := wanted()
	if err != nil || len(all.policies) != len(usual.policies) || len(all.bindings) != len(usual.bindings) {
		t.Fatalf("%d policies, %d bindings, %v", len(all.policies), len(all.bindings), err)
	}
	for _, b := range all.bindings {
		if b.Spec.ParamRef != nil && b.Spec.ParamRef.Namespace != "platform-x" {
			t.Errorf("binding %s reads namespace %s", b.Name, b.Spec.ParamRef.Namespace)
		}
	}
}

// An agent takes the policies for its own namespace, and says whose policies others are.
func TestPoliciesForAnother(t *testing.T) {
	inForce, err := wantedFor("platform-x", "lender")
	if err != nil {
		t.Fatal(err)
	}
	cluster := interceptor.NewClient(nil, interceptor.Funcs{Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey,
		into client.Object, _ ...client.GetOption) error {
		for i := range inForce.policies {
			switch o := into.(type) {
			case *admissionv1.ValidatingAdmissionPolicy:
				if inForce.policies[i].Name == key.Name {
					*o = inForce.policies[i]
				}
			case *admissionv1.ValidatingAdmissionPolicyBinding:
				if inForce.bindings[i].Name == key.Name {
					*o = inForce.bindings[i]
				}
			}
		}
		return nil
	}})
	if err := (&Policies{Known: cluster, Namespace: "platform-x", Account: "lender"}).Stand(t.Context()); err != nil {
		t.Errorf("its own: %v", err)
	}
	for namespace, account := range map[string]string{"bourse": "lender", "platform-x": ""} {
		err = (&Policies{Known: cluster, Namespace: namespace, Account: account}).Stand(t.Context())
		if api.CodeOf(err) != api.CodeUnavailable ||
			!strings.Contains(err.Error(), "for an agent in namespace platform-x with ServiceAccount lender") {
			t.Errorf("those of another: %v", err)
		}
	}
	found, err := (&Inspection{Lists: cluster, Namespace: "bourse", Lends: true}).policies(t.Context())
	if err != nil || len(found) != 1 || found[0].Code != health.PoliciesForAnother.Code {
		t.Errorf("the doctor says %+v, %v", found, err)
	}
}

package posture

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
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

// What is in the lists of the policies stays there, and so do the policies: after a reinstall Helm leaves in the cluster
// what a new version dropped from a list, and for good. A policy that must change otherwise gets a new name, and one
// that matches nothing but its proof stays under the old. testdata/lists.txt has what was there; -update adds to it.
func TestPoliciesAreAppendOnly(t *testing.T) {
	ours, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	var has []string
	for _, p := range ours.policies {
		has = append(has, p.Name)
		for _, c := range p.Spec.MatchConditions {
			has = append(has, p.Name+" condition "+c.Name)
		}
		for _, v := range p.Spec.Variables {
			has = append(has, p.Name+" variable "+v.Name)
		}
	}
	const file = "testdata/lists.txt"
	text, err := os.ReadFile(file)
	if err != nil && !*update {
		t.Fatal(err)
	}
	had := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool { return line == "" })
	all := slices.Clone(had)
	for _, item := range has {
		if !slices.Contains(had, item) {
			all = append(all, item)
			if !*update {
				t.Errorf("%s is new: run make generate and commit", item)
			}
		}
	}
	for _, item := range had {
		if !slices.Contains(has, item) {
			t.Errorf("%s is gone: Helm would leave it in clusters, and agents would say that the policy differs", item)
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(strings.Join(all, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Each policy refuses the proof of its own name, and before all else.
func TestEachPolicyHasAProof(t *testing.T) {
	ours, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ours.policies {
		if !hasProof(&p) {
			if !slices.Contains([]string{"bourse-reflected", "bourse-deletions", "bourse-hub-pods", "bourse-hub-events"}, p.Name) {
				t.Errorf("%s has no proof", p.Name)
			}
			continue
		}
		rules, conditions := p.Spec.MatchConstraints.ResourceRules, p.Spec.MatchConditions
		if last := rules[len(rules)-1]; !slices.Equal(last.Resources, []string{"peerings"}) {
			t.Errorf("%s matches no Peering", p.Name)
		}
		if p.Spec.Validations[0].Expression != "request.resource.resource != 'peerings'" || p.Spec.Validations[0].Message != p.Name+inForce {
			t.Errorf("%s first validates %+v", p.Name, p.Spec.Validations[0])
		}
		proven := 0
		for _, c := range conditions {
			if c.Expression == "request.resource.resource != 'peerings' || object.metadata.name == '"+p.Name+proofSuffix+"'" {
				proven++
			} else if !strings.HasPrefix(c.Expression, "request.resource.resource == 'peerings' || ") {
				t.Errorf("%s: condition %s holds back the proof", p.Name, c.Name)
			}
		}
		if proven != 1 {
			t.Errorf("%s looks at the proofs of others", p.Name)
		}
	}
}

// An agent that finds newer policies goes on if each of them denies, and says so. Of older ones it says that they differ.
func TestPoliciesNewer(t *testing.T) {
	inForce, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	deny := true
	versions := map[string]string{}
	cluster := interceptor.NewClient(nil, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			for i := range inForce.policies {
				if o, ok := into.(*admissionv1.ValidatingAdmissionPolicy); ok && inForce.policies[i].Name == key.Name {
					inForce.policies[i].DeepCopyInto(o)
					o.Annotations = versions
					o.Spec.Validations = o.Spec.Validations[:1] // of a version that says something else
				}
			}
			return nil
		},
		Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			if o.GetName() == "bourse-claims.proof" && !deny {
				return nil
			}
			err := apierrors.NewInvalid(api.GroupVersion.WithKind("Peering").GroupKind(), o.GetName(), nil)
			err.ErrStatus.Message = strings.TrimSuffix(o.GetName(), ".proof") + ": in force; of class bourse; finalizers"
			return err
		},
	})
	look := func() (err error, found []api.Problem) {
		err = (&Policies{Known: cluster, Writer: cluster}).InForce(t.Context())
		found, _ = (&Inspection{Lists: cluster, Writer: cluster, Lends: true, Prove: true}).policies(t.Context())
		return err, found
	}
	if err, found := look(); api.CodeOf(err) != api.CodeUnavailable || found[0].Code != health.PoliciesMissing.Code {
		t.Errorf("of an older version: %v, %v", err, found)
	}
	versions[versionAnnotation] = "2"
	if err, found := look(); err != nil || len(found) != 1 || found[0].Code != health.PoliciesNewer.Code {
		t.Errorf("of a newer version: %v, %v", err, found)
	}
	deny = false
	err, found := look()
	if err == nil || !strings.Contains(err.Error(), "bourse-claims does not deny") || found[0].Code != health.PoliciesMissing.Code {
		t.Errorf("of a newer version that does not deny: %v, %v", err, found)
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

package posture

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

const (
	// proofSuffix ends the name of the Peering that a policy refuses by the message of inForce, in each version.
	proofSuffix, inForce = ".proof", ": in force"
	// provenFor is how long the proof of each policy counts.
	provenFor = time.Minute
	// versionAnnotation is on the policy ofTheAgent, and counts the versions of all policies.
	versionAnnotation = api.Group + "/version"
)

// proveEach proves by dry runs that the API server applies the policies: each refuses a Peering that has its name.
// Errors: Unavailable with the policy.
func (p *Policies) proveEach(ctx context.Context) error {
	shipped, err := wantedFor(p.Namespace, p.Account)
	if err != nil {
		return err
	}
	p.proving.Lock()
	defer p.proving.Unlock()
	if !p.proven.IsZero() && time.Since(p.proven) < provenFor {
		return nil
	}
	for i := range shipped.policies {
		policy := &shipped.policies[i]
		if !hasProof(policy) {
			continue
		}
		proof := &api.Peering{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: policy.Name + proofSuffix,
			Labels: map[string]string{api.VirtualNodePoolLabel: "proof"}}, // bourse-pool-requests looks at what has this label
			Spec: api.PeeringSpec{Cluster: "proof", Role: api.RoleProvider}}
		switch err := p.Create(ctx, proof, client.DryRunAll); {
		case err == nil:
			return doesNotDeny("the admission policy " + policy.Name + " does")
		case !strings.Contains(err.Error(), policy.Name+inForce):
			return err
		}
	}
	p.proven = time.Now()
	return nil
}

// hasProof reports whether a policy matches a Peering in the agent's namespace. Those that match the namespaces of consumers
// alone do not.
func hasProof(p *admissionv1.ValidatingAdmissionPolicy) bool {
	return !slices.ContainsFunc(p.Spec.MatchConstraints.NamespaceSelector.MatchExpressions,
		func(e metav1.LabelSelectorRequirement) bool { return e.Operator == metav1.LabelSelectorOpExists })
}

func doesNotDeny(what string) error {
	return api.Errorf(api.CodeUnavailable, "%s not deny yet", what).
		Fix("wait a minute; if this persists, check that the API server enables ValidatingAdmissionPolicy")
}

// deny proves with dry runs of attacks that the API server applies the policies on replicated objects.
// The policies on reflected objects apply to mapped namespaces only, and there may be none yet. They
// were applied together with the others.
func (p *Policies) deny(ctx context.Context) error {
	proof := metav1.ObjectMeta{Namespace: p.Namespace, Name: "bourse-proof"}
	held := proof
	held.Finalizers = []string{api.Group + "/proof"}
	for says, slice := range map[string]*authv1beta1.ResourceSlice{
		"of class bourse": {ObjectMeta: proof,
			Spec: authv1beta1.ResourceSliceSpec{Class: authv1beta1.ResourceSliceClassDefault}},
		"finalizers": {ObjectMeta: held, Spec: authv1beta1.ResourceSliceSpec{Class: liqo.Class}},
	} {
		switch err := p.Create(ctx, slice, client.DryRunAll); {
		case err == nil:
			return doesNotDeny("the admission policies do")
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says):
			return err
		}
	}
	return nil
}

// newer returns the version of the policies in force, if they are newer than those of this program, and else nothing.
func (p *Policies) newer(ctx context.Context) (string, error) {
	shipped, err := wantedFor(p.Namespace, p.Account)
	if err != nil {
		return "", err
	}
	var have admissionv1.ValidatingAdmissionPolicy
	if err := p.Known.Get(ctx, client.ObjectKey{Name: ofTheAgent}, &have); err != nil {
		return "", missing("policy", ofTheAgent, err)
	}
	for i := range shipped.policies {
		if want := &shipped.policies[i]; want.Name == ofTheAgent && version(&have) > version(want) {
			return have.Annotations[versionAnnotation], nil
		}
	}
	return "", nil
}

func version(p *admissionv1.ValidatingAdmissionPolicy) int {
	number, _ := strconv.Atoi(p.Annotations[versionAnnotation]) // none: before there were versions
	return number
}

// Package posture is whether a provider's cluster is safe to lend from: whether the admission policies are in force
// that keep a brokered consumer to what it reserved.
package posture

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"strconv"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// manifest is config/liqo/policies.yaml; `make generate` copies it here.
//
//go:embed policies.yaml
var manifest []byte

// Policies are those that config/liqo/policies.yaml holds. Reader must read from the API server, not from a cache.
type Policies struct {
	Reader client.Reader
	client.Writer
	// Namespace is the agent's.
	Namespace string
}

const (
	apply = "apply config/liqo/policies.yaml"
	// consumers is the ConfigMap that names the brokered consumers, one key for each, and as "CONSUMER.slice" and
	// "CONSUMER.csr" what each may have. A cluster ID has no dot.
	consumers = "bourse-consumers"
)

// InForce says that the policies are there, unchanged, and deny. Errors: Unavailable with the remedy.
func (p *Policies) InForce(ctx context.Context) error {
	if err := p.stand(ctx); err != nil {
		return err
	}
	return p.deny(ctx)
}

// stand says that the policies are there and unchanged.
func (p *Policies) stand(ctx context.Context) error {
	policies, bindings, err := wanted()
	if err != nil {
		return err
	}
	for _, want := range policies {
		var have admissionv1.ValidatingAdmissionPolicy
		if err := p.Reader.Get(ctx, client.ObjectKey{Name: want.Name}, &have); err != nil {
			return missing("policy", want.Name, err)
		}
		if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
			return api.Errorf(api.CodeUnavailable, "ValidatingAdmissionPolicy %s is not what this version of Bourse ships", want.Name).Fix(apply)
		}
	}
	for _, want := range bindings {
		var have admissionv1.ValidatingAdmissionPolicyBinding
		if err := p.Reader.Get(ctx, client.ObjectKey{Name: want.Name}, &have); err != nil {
			return missing("binding", want.Name, err)
		}
		if !equality.Semantic.DeepEqual(have.Spec, want.Spec) {
			return api.Errorf(api.CodeUnavailable, "ValidatingAdmissionPolicyBinding %s is not what this version of Bourse ships", want.Name).Fix(apply)
		}
	}
	return nil
}

func missing(what, name string, err error) error {
	if apierrors.IsNotFound(err) {
		return api.Errorf(api.CodeUnavailable, "the admission %s %s is missing: a consumer could grant itself anything", what, name).Fix(apply)
	}
	return err
}

// deny proves, by a dry run of what a hostile consumer would do, that the API server asks the policies.
func (p *Policies) deny(ctx context.Context) error {
	slice := &authv1beta1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "bourse-proof"},
		Spec:       authv1beta1.ResourceSliceSpec{Class: authv1beta1.ResourceSliceClassDefault},
	}
	err := p.Create(ctx, slice, client.DryRunAll)
	switch {
	case err == nil:
		return api.Errorf(api.CodeUnavailable, "the admission policies do not deny yet").Fix("wait a moment; if it stays so, see whether the API server runs admission policies")
	case apierrors.IsInvalid(err) && strings.Contains(err.Error(), "of class bourse"):
		return nil
	}
	return err
}

// wanted reads the manifest.
func wanted() (policies []admissionv1.ValidatingAdmissionPolicy, bindings []admissionv1.ValidatingAdmissionPolicyBinding, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var raw rawObject
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return policies, bindings, nil
		} else if err != nil {
			return nil, nil, err
		}
		switch raw.Kind {
		case "ValidatingAdmissionPolicy":
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := raw.into(&policy); err != nil {
				return nil, nil, err
			}
			policies = append(policies, policy)
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			if err := raw.into(&binding); err != nil {
				return nil, nil, err
			}
			bindings = append(bindings, binding)
		}
	}
}

// List puts a consumer under the policies; limits asks for limits on its containers, too.
func (p *Policies) List(ctx context.Context, consumer string, limits bool) error {
	return p.change(ctx, func(data map[string]string) {
		if data[consumer] = "brokered"; limits {
			data[consumer] = "brokered, limits"
		}
	})
}

// Allow lets a consumer, who is listed, have one slice of this name, with a certificate request of at most this length.
func (p *Policies) Allow(ctx context.Context, consumer, slice string, csr int) error {
	return p.change(ctx, func(data map[string]string) {
		data[consumer+".slice"], data[consumer+".csr"] = slice, strconv.Itoa(csr)
	})
}

// Unlist takes a consumer out again, of which nothing is left.
func (p *Policies) Unlist(ctx context.Context, consumer string) error {
	return p.change(ctx, func(data map[string]string) {
		for _, key := range []string{consumer, consumer + ".slice", consumer + ".csr"} {
			delete(data, key)
		}
	})
}

func (p *Policies) change(ctx context.Context, change func(map[string]string)) error {
	var m corev1.ConfigMap
	if err := p.Reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: consumers}, &m); err != nil {
		return missing("parameter", consumers, err)
	}
	before := m.DeepCopy()
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	change(m.Data)
	if equality.Semantic.DeepEqual(before.Data, m.Data) {
		return nil
	}
	return p.Patch(ctx, &m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

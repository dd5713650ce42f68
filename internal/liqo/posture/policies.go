// Package posture is whether a provider's cluster is safe to lend from: whether the admission policies are in force
// that keep a brokered consumer to what it reserved.
package posture

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"io"
	"maps"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

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

// Policies are those that config/liqo/policies.yaml holds.
type Policies struct {
	// Known reads the policies and their bindings. It may be a cache that a watch keeps: every opening asks, and what changes is known at once.
	Known client.Reader
	// Reader must read from the API server.
	Reader client.Reader
	client.Writer
	// Namespace is the agent's.
	Namespace string
}

const (
	// knownWithin is how long a watch may take to begin, which it does not where the agent may not watch.
	knownWithin = 10 * time.Second

	apply = "apply config/liqo/policies.yaml"
	// consumers is the ConfigMap that names the brokered consumers, one key for each, as "CONSUMER.slices" the slices that
	// each may have with the lengths of their certificate requests, and for the user of each slice as "USER.of" whose it is,
	// as "USER.nodes" and "USER.tolerates" where its pods may go. A cluster ID, and a user, has no dot.
	consumers = "bourse-consumers"
	of        = ".of"
)

// InForce says that the policies are there, unchanged, and deny. Errors: Unavailable with the remedy.
func (p *Policies) InForce(ctx context.Context) error {
	if err := p.Stand(ctx); err != nil {
		return err
	}
	return p.deny(ctx)
}

// Stand says that the policies are there and unchanged. Errors: Unavailable with the remedy.
func (p *Policies) Stand(ctx context.Context) error {
	ours, err := wanted()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	for _, want := range ours.policies {
		var have admissionv1.ValidatingAdmissionPolicy
		if err := p.Known.Get(ctx, client.ObjectKey{Name: want.Name}, &have); err != nil {
			return missing("policy", want.Name, err)
		}
		if err := unchanged("ValidatingAdmissionPolicy "+want.Name, have.Spec, want.Spec); err != nil {
			return err
		}
	}
	for _, want := range ours.bindings {
		var have admissionv1.ValidatingAdmissionPolicyBinding
		if err := p.Known.Get(ctx, client.ObjectKey{Name: want.Name}, &have); err != nil {
			return missing("binding", want.Name, err)
		}
		if err := unchanged("ValidatingAdmissionPolicyBinding "+want.Name, have.Spec, want.Spec); err != nil {
			return err
		}
	}
	return nil
}

func unchanged(what string, have, want any) error {
	if equality.Semantic.DeepEqual(have, want) {
		return nil
	}
	return api.Errorf(api.CodeUnavailable, "%s is not what this version of Bourse ships", what).Fix(apply)
}

func missing(what, name string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return api.Errorf(api.CodeUnavailable, "the admission %s %s is missing: a consumer could grant itself anything", what, name).Fix(apply)
	case apierrors.IsTimeout(err): // of a watch that does not begin
		return api.Errorf(api.CodeUnavailable, "the admission %s %s cannot be watched: %s", what, name, err).
			Fix("apply config/liqo as this version of Bourse ships it: it lets the agent list and watch policies")
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

// shipped are the policies and bindings of the manifest.
type shipped struct {
	policies []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// wanted reads the manifest.
var wanted = sync.OnceValues(func() (all shipped, err error) {
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(manifest), 4096)
	for {
		var raw rawObject
		if err := decoder.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		switch raw.Kind {
		case "ValidatingAdmissionPolicy":
			var policy admissionv1.ValidatingAdmissionPolicy
			if err := raw.into(&policy); err != nil {
				return all, err
			}
			all.policies = append(all.policies, policy)
		case "ValidatingAdmissionPolicyBinding":
			var binding admissionv1.ValidatingAdmissionPolicyBinding
			if err := raw.into(&binding); err != nil {
				return all, err
			}
			all.bindings = append(all.bindings, binding)
		}
	}
})

// Slice is one that a consumer may have, and where its pods may go.
type Slice struct {
	Name string
	// CSR is how long its certificate request can be, User whom it certifies: the virtual kubelet that makes its pods.
	CSR  int
	User string
	// Places are where its pods may go. Nil where nothing says so any more: then as before.
	Places *Places
}

// Places are the nodes of a pool.
type Places struct {
	// Nodes are the labels that pods must select.
	Nodes map[string]string
	// Tolerates are the keys of taints that pods may tolerate.
	Tolerates []string
}

// List puts a consumer under the policies, with the slices that it may have and no others; limits says whether limits are demanded of
// each container, too: nil, as before.
func (p *Policies) List(ctx context.Context, consumer string, limits *bool, all []Slice) error {
	return p.change(ctx, func(data map[string]string) {
		switch {
		case limits == nil && data[consumer] != "":
		case limits != nil && *limits:
			data[consumer] = "brokered, limits"
		default:
			data[consumer] = "brokered"
		}
		before := maps.Clone(data)
		forget(data, consumer)
		var slices []string
		for _, s := range all {
			slices = append(slices, s.Name+"="+strconv.Itoa(s.CSR))
			data[s.User+of] = consumer
			nodes, tolerates := before[s.User+".nodes"], before[s.User+".tolerates"]
			if s.Places != nil {
				nodes, tolerates = s.Places.selector(), strings.Join(s.Places.Tolerates, ",")
			}
			put(data, s.User+".nodes", nodes)
			put(data, s.User+".tolerates", tolerates)
		}
		put(data, consumer+".slices", strings.Join(slices, ","))
	})
}

// selector is the labels, as the policies read them.
func (p Places) selector() string {
	var nodes []string
	for name, value := range p.Nodes {
		nodes = append(nodes, name+"="+value)
	}
	sort.Strings(nodes)
	return strings.Join(nodes, ",")
}

// forget drops what a consumer may have.
func forget(data map[string]string, consumer string) {
	delete(data, consumer+".slices")
	for key, value := range data {
		if user, found := strings.CutSuffix(key, of); found && value == consumer {
			delete(data, key)
			delete(data, user+".nodes")
			delete(data, user+".tolerates")
		}
	}
}

// put makes an entry what it should be, without those that say nothing.
func put(data map[string]string, key, value string) {
	if data[key] = value; value == "" {
		delete(data, key)
	}
}

// Unlist takes a consumer out again, of which nothing is left.
func (p *Policies) Unlist(ctx context.Context, consumer string) error {
	return p.change(ctx, func(data map[string]string) {
		forget(data, consumer)
		delete(data, consumer)
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

// Package posture checks whether a provider's cluster is safe to lend from: whether the admission
// policies are in force that limit a brokered consumer to its reservations.
package posture

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// manifest is config/liqo/policies.yaml; `make generate` copies it here.
//
//go:embed policies.yaml
var manifest []byte

// Policies checks the policies of config/liqo/policies.yaml and writes their parameters.
type Policies struct {
	// Known reads the policies and their bindings. It may read from a watched cache, which is current
	// within moments: every opening of a peering reads them.
	Known client.Reader
	// Reader must read from the API server.
	Reader client.Reader
	client.Writer
	// Namespace is the agent's namespace; Cluster is this cluster's ID.
	Namespace, Cluster string
	// Consumers keeps the parameters. Nil: they must be there, and are read before each change.
	Consumers *ConsumerList

	changing sync.Mutex // held while the parameters change, without Consumers
}

const (
	// knownWithin bounds the start of a watch. Without the permission to watch, it never starts.
	knownWithin = 10 * time.Second

	apply = "apply config/liqo/policies.yaml"
	// agentsAccount is the agent's ServiceAccount, and ofTheAgent a binding that names the agent's namespace.
	agentsAccount, ofTheAgent = "bourse-agent", "bourse-slice-status"
	// otherNamespace is the field of the error that the policies are for an agent in another namespace.
	otherNamespace = "namespace"
	// consumers is the ConfigMap with the policies' parameters. Its keys (a cluster ID or a user has no dot):
	//
	//	CONSUMER              a brokered consumer
	//	CONSUMER.slices       the slices that it may have, with the lengths of their certificate requests
	//	CONSUMER.at           this cluster's ID, with which Liqo names objects that a consumer has once here
	//	CONSUMER.annotations  further annotation keys that its Services may have
	//	CONSUMER.namespaces   how many namespaces it may have, if not 64
	//	CONSUMER.others       endings of namespaces of other consumers whose IDs end like its own
	//	USER.of               the consumer to which the user of a slice belongs
	//	USER.nodes, USER.tolerates, USER.storage, USER.runtimes   the placement of its pods
	consumers   = "bourse-consumers"
	of          = ".of"
	slicesOf    = ".slices"
	at          = ".at"
	annotations = ".annotations"
	most        = ".namespaces"
	others      = ".others"

	// MaxList bounds the bytes of keys and values in the list of consumers: about 3,000 consumers with
	// one pool each. Kubernetes accepts 1.5 MB.
	MaxList = 1_300_000
)

// places lists the keys for the pods of a user.
var places = []string{".nodes", ".tolerates", ".storage", ".runtimes"}

// InForce returns nil if the policies exist, are unchanged and deny. Errors: Unavailable with the remedy.
func (p *Policies) InForce(ctx context.Context) error {
	if err := p.Stand(ctx); err != nil {
		return err
	}
	return p.deny(ctx)
}

// Stand returns nil if the policies exist and are unchanged. Errors: Unavailable with the remedy.
func (p *Policies) Stand(ctx context.Context) error {
	shipped, err := wantedFor(p.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	if err := p.areForAnother(ctx); err != nil {
		return err
	}
	for _, want := range shipped.policies {
		var have admissionv1.ValidatingAdmissionPolicy
		if err := p.Known.Get(ctx, client.ObjectKey{Name: want.Name}, &have); err != nil {
			return missing("policy", want.Name, err)
		}
		if err := unchanged("ValidatingAdmissionPolicy "+want.Name, have.Spec, want.Spec); err != nil {
			return err
		}
	}
	for _, want := range shipped.bindings {
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
	return api.Errorf(api.CodeUnavailable, "%s differs from the one that this version of Bourse ships", what).Fix(apply)
}

func missing(what, name string, err error) error {
	switch {
	case apierrors.IsNotFound(err):
		return api.Errorf(api.CodeUnavailable, "the admission %s %s is missing: a consumer could grant itself anything",
			what, name).Fix(apply)
	case apierrors.IsTimeout(err): // the watch did not start
		return api.Errorf(api.CodeUnavailable, "the admission %s %s cannot be watched: %s", what, name, err).
			Fix("apply config/liqo of this version of Bourse: it allows the agent to list and watch policies")
	}
	return err
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
			return api.Errorf(api.CodeUnavailable, "the admission policies do not deny yet").
				Fix("wait a minute; if this persists, check that the API server enables ValidatingAdmissionPolicy")
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says):
			return err
		}
	}
	return nil
}

// shipped holds the policies and bindings of the manifest.
type shipped struct {
	policies []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// areForAnother returns an error if the policies in force name the agent of another namespace.
func (p *Policies) areForAnother(ctx context.Context) error {
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	err := p.Known.Get(ctx, client.ObjectKey{Name: ofTheAgent}, &binding)
	if err != nil || binding.Spec.ParamRef == nil {
		return nil // Stand says that it is missing or differs
	}
	if is, want := binding.Spec.ParamRef.Namespace, cmp.Or(p.Namespace, api.Namespace); is != want {
		return api.Errorf(api.CodeUnavailable, "the admission policies are for an agent in namespace %s, and this one is in %s",
			is, want).At(otherNamespace).Fix("run the agent in namespace %s, or apply the policies for namespace %s", is, want)
	}
	return nil
}

// wanted are the policies for an agent in the namespace of config/liqo.
func wanted() (shipped, error) { return wantedFor(api.Namespace) }

// known has what wantedFor has read, by namespace.
var known sync.Map

// wantedFor returns the policies for an agent in a namespace.
func wantedFor(namespace string) (shipped, error) {
	namespace = cmp.Or(namespace, api.Namespace)
	if read, there := known.Load(namespace); there {
		return read.(shipped), nil
	}
	all, err := read(Render(namespace, agentsAccount))
	if err == nil {
		known.Store(namespace, all)
	}
	return all, err
}

// read reads a manifest.
func read(manifest []byte) (all shipped, err error) {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(text, nil, nil)
		if err != nil {
			return all, err
		}
		switch o := object.(type) {
		case *admissionv1.ValidatingAdmissionPolicy:
			all.policies = append(all.policies, *o)
		case *admissionv1.ValidatingAdmissionPolicyBinding:
			all.bindings = append(all.bindings, *o)
		}
	}
}

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
	"regexp"
	"sync"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
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
	// Namespace is the agent's namespace, Account its ServiceAccount; empty: bourse and bourse-agent. Cluster is this
	// cluster's ID.
	Namespace, Account, Cluster string
	// Consumers keeps the parameters. Nil: they must be there, and are read before each change.
	Consumers *ConsumerList

	changing sync.Mutex // held while the parameters change, without Consumers

	proving sync.Mutex
	proven  time.Time // when each policy was proven last; protected by proving
}

const (
	// knownWithin bounds the start of a watch. Without the permission to watch, it never starts.
	knownWithin = 10 * time.Second

	apply = "helm upgrade --install bourse-base charts/bourse-base, or apply config/liqo/policies.yaml"
	// agentsAccount is the agent's usual ServiceAccount, and ofTheAgent the policy about what the agent does, which names it.
	agentsAccount, ofTheAgent = "bourse-agent", "bourse-agent"
	// otherAgent is the field of the error that the policies are for another agent.
	otherAgent = "agent"
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

// InForce returns nil if the policies exist, are those of this version or newer, and each of them denies. Errors:
// Unavailable with the remedy.
func (p *Policies) InForce(ctx context.Context) error {
	if err := p.Stand(ctx); err != nil {
		return err
	}
	if err := p.proveEach(ctx); err != nil {
		return err
	}
	return p.deny(ctx)
}

// Stand returns nil if the policies exist and are unchanged, or newer and each of them denies. Errors: Unavailable with
// the remedy.
func (p *Policies) Stand(ctx context.Context) error {
	shipped, err := wantedFor(p.Namespace, p.Account)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, knownWithin)
	defer cancel()
	if err := p.areForAnother(ctx); err != nil {
		return err
	}
	if newer, err := p.newer(ctx); err != nil {
		return err
	} else if newer != "" { // what they say is not known here; what they must refuse is
		return p.proveEach(ctx)
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

// shipped holds the policies and bindings of the manifest.
type shipped struct {
	policies []admissionv1.ValidatingAdmissionPolicy
	bindings []admissionv1.ValidatingAdmissionPolicyBinding
}

// userOfAgent finds the namespace and the account that a policy names.
var userOfAgent = regexp.MustCompile(`system:serviceaccount:([a-z0-9-]+):([a-z0-9.-]+)`)

// areForAnother returns an error if the policies in force name another agent.
func (p *Policies) areForAnother(ctx context.Context) error {
	var policy admissionv1.ValidatingAdmissionPolicy
	err := p.Known.Get(ctx, client.ObjectKey{Name: ofTheAgent}, &policy)
	if err != nil || len(policy.Spec.MatchConditions) == 0 {
		return nil // Stand says that it is missing or differs
	}
	is := userOfAgent.FindStringSubmatch(policy.Spec.MatchConditions[0].Expression)
	namespace, account := cmp.Or(p.Namespace, api.Namespace), cmp.Or(p.Account, agentsAccount)
	if is == nil || is[1] == namespace && is[2] == account {
		return nil
	}
	return api.Errorf(api.CodeUnavailable, "the admission policies are for an agent in namespace %s with ServiceAccount %s, "+
		"and this one is in %s with %s", is[1], is[2], namespace, account).At(otherAgent).
		Fix("helm upgrade bourse-base charts/bourse-base --set agent.namespace=%s,agent.serviceAccount=%s, or run "+
			"the agent in namespace %s with that ServiceAccount", namespace, account, is[1])
}

// wanted are the policies for the agent of config/liqo.
func wanted() (shipped, error) { return wantedFor(api.Namespace, agentsAccount) }

// known has what wantedFor has read, by namespace and account.
var known sync.Map

// wantedFor returns the policies for an agent.
func wantedFor(namespace, account string) (shipped, error) {
	agent := [2]string{cmp.Or(namespace, api.Namespace), cmp.Or(account, agentsAccount)}
	if read, there := known.Load(agent); there {
		return read.(shipped), nil
	}
	all, err := read(Render(agent[0], agent[1]))
	if err == nil {
		known.Store(agent, all)
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

// Package posture is whether a provider's cluster is safe to lend from: whether the admission policies are in force
// that keep a brokered consumer to what it reserved.
package posture

import (
	"bytes"
	"cmp"
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
	"github.com/bourse-dev/bourse/internal/liqo"
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
	// Namespace is the agent's, Cluster this cluster's ID.
	Namespace, Cluster string
}

const (
	// knownWithin is how long a watch may take to begin, which it does not where the agent may not watch.
	knownWithin = 10 * time.Second

	apply = "apply config/liqo/policies.yaml"
	// consumers is the ConfigMap that names the brokered consumers, one key for each, as "CONSUMER.slices" the slices that
	// each may have with the lengths of their certificate requests, as "CONSUMER.at" this cluster, as Liqo names by it what the consumer
	// has once here, as "CONSUMER.annotations" the keys that its Services may have
	// besides, as "CONSUMER.others" the endings of the names of namespaces that are another's whose ID ends like its own, and for the user of each slice as "USER.of" whose it is, as "USER.nodes", "USER.tolerates", "USER.storage" and "USER.runtimes"
	// the Places of its pods. A cluster ID, and a user, has no dot.
	consumers   = "bourse-consumers"
	of          = ".of"
	slicesOf    = ".slices"
	at          = ".at"
	annotations = ".annotations"
	others      = ".others"

	// MaxList is how many bytes of keys and values the list of consumers takes in, some 3,000 consumers of one pool: Kubernetes takes in 1.5 MB.
	MaxList = 1_300_000
)

// places are what is said of the pods of a user.
var places = []string{".nodes", ".tolerates", ".storage", ".runtimes"}

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

// deny proves, by dry runs of what a hostile consumer would do, that the API server asks the policies on what is replicated. Those on what is
// reflected look at mapped namespaces only, of which there may be none yet; they were applied with these.
func (p *Policies) deny(ctx context.Context) error {
	proof := metav1.ObjectMeta{Namespace: p.Namespace, Name: "bourse-proof"}
	held := proof
	held.Finalizers = []string{api.Group + "/proof"}
	for says, slice := range map[string]*authv1beta1.ResourceSlice{
		"of class bourse": {ObjectMeta: proof, Spec: authv1beta1.ResourceSliceSpec{Class: authv1beta1.ResourceSliceClassDefault}},
		"finalizers":      {ObjectMeta: held, Spec: authv1beta1.ResourceSliceSpec{Class: liqo.Class}},
	} {
		switch err := p.Create(ctx, slice, client.DryRunAll); {
		case err == nil:
			return api.Errorf(api.CodeUnavailable, "the admission policies do not deny yet").Fix("wait a moment; if it stays so, see whether the API server runs admission policies")
		case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says):
			return err
		}
	}
	return nil
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

// Places are what a pool lends to the pods of a slice.
type Places struct {
	// Nodes are the labels that pods must select.
	Nodes map[string]string
	// Tolerates are the keys of taints that pods may tolerate.
	Tolerates []string
	// StorageClasses are those of their claims, RuntimeClasses those that they may choose.
	StorageClasses, RuntimeClasses []string
}

// Demands are what the SharingPolicy says of all that consumers write.
type Demands struct {
	// Limits demands limits of each container.
	Limits bool
	// Annotations are the keys that Services and Ingresses may have besides those that everybody's may.
	Annotations []string
}

// List puts a consumer under the policies, with the slices that it may have and no others, and what is demanded of it: nil, as before.
func (p *Policies) List(ctx context.Context, consumer string, demands *Demands, all []Slice) error {
	return p.change(ctx, func(data map[string]string) {
		before := maps.Clone(data)
		forget(data, consumer)
		data[consumer] = cmp.Or(before[consumer], "brokered")
		put(data, consumer+at, p.Cluster)
		put(data, consumer+annotations, before[consumer+annotations])
		if demands != nil {
			data[consumer] = "brokered"
			if demands.Limits {
				data[consumer] += ", limits"
			}
			put(data, consumer+annotations, strings.Join(demands.Annotations, ","))
		}
		var slices []string
		for _, s := range all {
			slices = append(slices, s.Name+"="+strconv.Itoa(s.CSR))
			data[s.User+of] = consumer
			says := func(i int) string { return before[s.User+places[i]] }
			if s.Places != nil {
				says = s.Places.say
			}
			for i, place := range places {
				put(data, s.User+place, says(i))
			}
		}
		put(data, consumer+slicesOf, strings.Join(slices, ","))
	})
}

// say is the entry of each of places.
func (p *Places) say(i int) string {
	return []string{p.selector(), strings.Join(p.Tolerates, ","), strings.Join(p.StorageClasses, ","), strings.Join(p.RuntimeClasses, ",")}[i]
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
	delete(data, consumer+slicesOf)
	delete(data, consumer+annotations)
	delete(data, consumer+at)
	delete(data, consumer+others)
	for key, value := range data {
		if user, found := strings.CutSuffix(key, of); found && value == consumer {
			delete(data, key)
			for _, place := range places {
				delete(data, user+place)
			}
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
	listOthers(m.Data)
	if size := sizeOf(m.Data); size > MaxList && size > sizeOf(before.Data) {
		return api.Errorf(api.CodeCapReached, "ConfigMap %s, which lists the brokered consumers, would take %d bytes of at most %d", consumers, size, MaxList).
			Fix("lend to fewer clusters, or in fewer pools; close peerings that are not needed: kubectl -n %s get peerings", p.Namespace)
	}
	if equality.Semantic.DeepEqual(before.Data, m.Data) {
		return nil
	}
	return p.Patch(ctx, &m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// listOthers says of each consumer which others have IDs that end like its own: their namespaces end so, too.
func listOthers(data map[string]string) {
	endings := map[string][]string{}
	for id := range data {
		if strings.Contains(id, ".") {
			continue
		}
		for i := range id {
			if shorter := id[i+1:]; id[i] == '-' && data[shorter] != "" {
				endings[shorter] = append(endings[shorter], "-"+id)
			}
		}
	}
	for id := range data {
		if consumer, found := strings.CutSuffix(id, others); found && endings[consumer] == nil {
			delete(data, id)
		}
	}
	for consumer, all := range endings {
		sort.Strings(all)
		data[consumer+others] = strings.Join(all, ",")
	}
}

func sizeOf(data map[string]string) (bytes int) {
	for key, value := range data {
		bytes += len(key) + len(value)
	}
	return bytes
}

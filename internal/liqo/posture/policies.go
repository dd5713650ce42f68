// Package posture checks whether a provider's cluster is safe to lend from: whether the admission
// policies are in force that limit a brokered consumer to its reservations.
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

	changing sync.Mutex // held while the parameters change
}

const (
	// knownWithin bounds the start of a watch. Without the permission to watch, it never starts.
	knownWithin = 10 * time.Second

	apply = "apply config/liqo/policies.yaml"
	// consumers is the ConfigMap with the policies' parameters. Its keys (a cluster ID or a user has no dot):
	//
	//	CONSUMER              a brokered consumer
	//	CONSUMER.slices       the slices that it may have, with the lengths of their certificate requests
	//	CONSUMER.at           this cluster's ID, with which Liqo names objects that a consumer has once here
	//	CONSUMER.annotations  further annotation keys that its Services may have
	//	CONSUMER.others       endings of namespaces of other consumers whose IDs end like its own
	//	USER.of               the consumer to which the user of a slice belongs
	//	USER.nodes, USER.tolerates, USER.storage, USER.runtimes   the Places of its pods
	consumers   = "bourse-consumers"
	of          = ".of"
	slicesOf    = ".slices"
	at          = ".at"
	annotations = ".annotations"
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

// Slice is a slice that a consumer may have, and where its pods may run.
type Slice struct {
	Name string
	// CSR is the greatest length of its certificate request. User is the user that it certifies: the
	// virtual kubelet that makes its pods.
	CSR  int
	User string
	// Places are the places where its pods may run. Nil: leave the entries unchanged.
	Places *Places
}

// Places lists what the pods of a slice may use of a pool.
type Places struct {
	// Nodes are the labels that pods must select.
	Nodes map[string]string
	// Tolerates are the keys of taints that pods may tolerate.
	Tolerates []string
	// StorageClasses and RuntimeClasses are the classes that pods and their claims may name.
	StorageClasses, RuntimeClasses []string
}

// Demands holds the SharingPolicy's rules for all objects of consumers.
type Demands struct {
	// Limits: each container must have limits.
	Limits bool
	// Annotations are further keys that Services and Ingresses may have.
	Annotations []string
}

// List puts a consumer under the policies. It may have exactly these slices. Nil demands leave the
// entries unchanged.
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

// say returns the value of the i-th key of places.
func (p *Places) say(i int) string {
	return []string{p.selector(), strings.Join(p.Tolerates, ","),
		strings.Join(p.StorageClasses, ","), strings.Join(p.RuntimeClasses, ",")}[i]
}

// selector returns the labels in the form that the policies read.
func (p Places) selector() string {
	var nodes []string
	for name, value := range p.Nodes {
		nodes = append(nodes, name+"="+value)
	}
	sort.Strings(nodes)
	return strings.Join(nodes, ",")
}

// forget removes the entries of a consumer's slices.
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

// put sets an entry, or removes it if the value is empty.
func put(data map[string]string, key, value string) {
	if data[key] = value; value == "" {
		delete(data, key)
	}
}

// Unlist removes a consumer that has nothing left here.
func (p *Policies) Unlist(ctx context.Context, consumer string) error {
	return p.change(ctx, func(data map[string]string) {
		forget(data, consumer)
		delete(data, consumer)
	})
}

func (p *Policies) change(ctx context.Context, change func(map[string]string)) error {
	p.changing.Lock()
	defer p.changing.Unlock()
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
		return api.Errorf(api.CodeCapReached,
			"ConfigMap %s, which lists the brokered consumers, would take %d bytes of at most %d", consumers, size, MaxList).
			Fix("lend to fewer clusters, or in fewer pools; close peerings that are not needed: kubectl -n %s get peerings",
				p.Namespace)
	}
	if equality.Semantic.DeepEqual(before.Data, m.Data) {
		return nil
	}
	return p.Patch(ctx, &m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// listOthers records, for each consumer, the others whose IDs end like its own, because their
// namespaces end so, too.
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

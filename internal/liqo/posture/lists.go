package posture

import (
	"cmp"
	"context"
	"maps"
	"sort"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Slice is a slice that a consumer may have, and where its pods may run.
type Slice struct {
	Name string
	// CSR is the greatest length of its certificate request. User is the user that it certifies: the
	// virtual kubelet that makes its pods.
	CSR  int
	User string
	// Placement says where its pods may run. Nil: leave the entries unchanged.
	Placement *PodPlacement
}

// PodPlacement lists what the pods of a slice may use of a pool.
type PodPlacement struct {
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
	// Namespaces is how many namespaces a consumer may have. 0: the policy's default.
	Namespaces int
	// Plain: the SharingPolicy names the consumer in plainConsumers.
	Plain bool
}

// How the list describes a consumer. The policies look only for the word "limits" after it.
const (
	brokered = "brokered"
	plain    = "plain"
)

// List puts a consumer under the policies. It may have exactly these slices. Nil demands leave the
// entries unchanged.
func (p *Policies) List(ctx context.Context, consumer string, demands *Demands, all []Slice) error {
	return p.change(ctx, func(data map[string]string) {
		before := maps.Clone(data)
		forget(data, consumer)
		data[consumer] = cmp.Or(before[consumer], brokered)
		put(data, consumer+at, p.Cluster)
		put(data, consumer+annotations, before[consumer+annotations])
		put(data, consumer+most, before[consumer+most])
		if demands != nil {
			if data[consumer] = brokered; demands.Plain {
				data[consumer] = plain
			}
			if demands.Limits {
				data[consumer] += ", limits"
			}
			put(data, consumer+annotations, strings.Join(demands.Annotations, ","))
			if delete(data, consumer+most); demands.Namespaces > 0 {
				data[consumer+most] = strconv.Itoa(demands.Namespaces)
			}
		}
		var slices []string
		for _, s := range all {
			slices = append(slices, s.Name+"="+strconv.Itoa(s.CSR))
			data[s.User+of] = consumer
			for i, place := range places {
				value := before[s.User+place]
				if s.Placement != nil {
					value = s.Placement.values()[i]
				}
				put(data, s.User+place, value)
			}
		}
		put(data, consumer+slicesOf, strings.Join(slices, ","))
	})
}

// values returns the values of the keys of places, in the form that the policies read.
func (p *PodPlacement) values() []string {
	return []string{labels.Set(p.Nodes).String(), strings.Join(p.Tolerates, ","),
		strings.Join(p.StorageClasses, ","), strings.Join(p.RuntimeClasses, ",")}
}

// forget removes the entries of a consumer's slices.
func forget(data map[string]string, consumer string) {
	delete(data, consumer+slicesOf)
	delete(data, consumer+annotations)
	delete(data, consumer+most)
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

// Plain returns the plain consumers that are under the policies. Where these are not installed, there are none.
func (p *Policies) Plain(ctx context.Context) (map[string]bool, error) {
	var m corev1.ConfigMap
	err := p.Reader.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: consumers}, &m)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	out := map[string]bool{}
	for id, says := range m.Data {
		if !strings.Contains(id, ".") && strings.HasPrefix(says, plain) {
			out[id] = true
		}
	}
	return out, err
}

// Unlist removes a brokered consumer that has nothing left here. It leaves a plain consumer.
func (p *Policies) Unlist(ctx context.Context, consumer string) error {
	return p.unlist(ctx, consumer, brokered)
}

// UnlistPlain removes a plain consumer that has nothing left here. It leaves a brokered consumer.
func (p *Policies) UnlistPlain(ctx context.Context, consumer string) error {
	return p.unlist(ctx, consumer, plain)
}

func (p *Policies) unlist(ctx context.Context, consumer, as string) error {
	return p.change(ctx, func(data map[string]string) {
		if strings.HasPrefix(data[consumer], as) {
			forget(data, consumer)
			delete(data, consumer)
		}
	})
}

func (p *Policies) change(ctx context.Context, change func(map[string]string)) error {
	list := p.Consumers
	if list == nil {
		list = &ConsumerList{Reader: p.Reader, Writer: p.Writer, Namespace: p.Namespace}
		p.changing.Lock()
		defer p.changing.Unlock()
	}
	return list.change(ctx, change)
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

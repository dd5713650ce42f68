package quantities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// maxKept bounds the objects of which Checked keeps that they have such an amount.
const maxKept = 100

// Checked looks at the amounts of Liqo's objects in what an API server answers, before they are decoded. An amount
// that is too long is read as 0. Checked keeps which objects have one, at most 100. The zero value is ready.
type Checked struct {
	mu    sync.Mutex
	found map[object]string
}

// object names an object of Liqo's.
type object struct {
	kind            schema.GroupVersionKind
	resource        string
	namespace, name string
}

// Wrap returns a copy of a configuration whose clients decode no amount that was not looked at.
func (c *Checked) Wrap(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(c.transport)
	return config
}

// note keeps that an object has such an amount, and in which field.
func (c *Checked) note(o object, field string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil {
		c.found = map[object]string{}
	}
	if _, known := c.found[o]; known || len(c.found) < maxKept {
		c.found[o] = field
	}
}

// take returns what was noted, and forgets it.
func (c *Checked) take() map[object]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.found
	c.found = nil
	return found
}

// Problems returns a problem for each object that has such an amount. It reads the objects again, by a reader
// whose configuration c wraps.
func (c *Checked) Problems(ctx context.Context, r client.Reader) (all []api.Problem, err error) {
	for o, field := range c.take() {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(o.kind)
		failed := r.List(ctx, list, client.InNamespace(o.namespace), client.MatchingFields{"metadata.name": o.name})
		if failed != nil && !meta.IsNoMatchError(failed) {
			c.note(o, field)
			err = errors.Join(err, failed)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for o, field := range c.found {
		all = append(all, health.AmountUnreadable.Of(fmt.Sprintf("%s %s/%s", o.kind.Kind, o.namespace, o.name),
			fmt.Sprintf("find out who wrote it, then: kubectl -n %s delete %s.%s %s",
				o.namespace, o.resource, o.kind.Group, o.name),
			"%s: an amount has at most %d characters and an exponent of at most two digits; it is read as 0",
			field, api.QuantityLength))
	}
	slices.SortFunc(all, func(a, b api.Problem) int { return strings.Compare(a.Subject, b.Subject) })
	return all, err
}

// kind is one of Liqo's kinds with amounts.
type kind struct {
	schema.GroupVersionKind
	// amounts is where an answer about objects of the kind has amounts: an object, a list or an event of a watch.
	amounts place
}

// kinds returns Liqo's kinds with amounts, by group and resource.
var kinds = sync.OnceValue(func() map[schema.GroupResource]kind {
	all, s := map[schema.GroupResource]kind{}, runtime.NewScheme()
	if err := liqo.AddToScheme(s); err != nil {
		panic(err) // two kinds have one name: a mistake in this program
	}
	for gvk, t := range s.AllKnownTypes() {
		if _, ok := reflect.New(t).Interface().(client.Object); !ok || !strings.HasSuffix(gvk.Group, ".liqo.io") {
			continue
		}
		places := placesIn(t)
		if places == nil {
			continue
		}
		answer := maps.Clone(places)
		answer["items"], answer["object"] = place{items: places}, places
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		all[plural.GroupResource()] = kind{gvk, answer}
	}
	return all
})

// names has the names of the objects in an answer.
type names struct {
	Type     string `json:"type"` // of an event of a watch
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Items  []names `json:"items"`
	Object *names  `json:"object"`
}

// noteAll notes the objects of an answer that have bad amounts.
func (c *Checked) noteAll(k kind, resource string, answer []byte, all []bad) error {
	var n names
	if err := json.Unmarshal(answer, &n); err != nil {
		return err
	}
	if n.Object != nil && n.Type == string(watch.Deleted) {
		return nil
	}
	for _, b := range all {
		of, field := &n, b.field
		switch {
		case b.item >= 0 && b.item < len(n.Items):
			of = &n.Items[b.item]
		case n.Object != nil:
			of = n.Object
		}
		c.note(object{k.GroupVersionKind, resource, of.Metadata.Namespace, of.Metadata.Name}, field)
	}
	return nil
}

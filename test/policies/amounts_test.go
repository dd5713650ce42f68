package policies

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/liqo/quantities"
)

const (
	// slow takes Go several minutes to read, where nobody looks at it before.
	slow = "1e-99999999"
	// atOnce is how long anything about an amount may take that nobody may read: far less than reading it takes.
	atOnce = time.Minute
)

// badAmounts are texts that no policy lets quantity() read.
var badAmounts = []string{slow, "1e100", "1E-100", strings.Repeat("0", 33), "0." + strings.Repeat("0", 31)}

// An amount that takes long to read, or is long, is refused at once, wherever it is in what a peer writes, also one
// that was peered by hand: nobody reads it before. The refusal names the place.
func TestAmounts(t *testing.T) {
	w := start(t)
	kubelet, controlPlane := w.mustAs(t, kubeletOf("milan", "milan-slice-1")), w.mustAs(t, controlPlaneOf("rome"))
	places := quantities.Places(reflect.TypeFor[offv1beta1.ShadowPod]())
	if len(places) < 17 {
		t.Errorf("a ShadowPod has amounts at %v", places)
	}
	for _, place := range places {
		o := loose(t, honest("shadowpods", "amounts"))
		o.SetNamespace(byHand)
		put(o.Object, strings.Split(place, "."), slow)
		w.refusedAtOnce(t, place, slow, func() error { return kubelet.Create(t.Context(), o, kube.DryRunAll) })
	}
	for _, bad := range badAmounts {
		o := loose(t, honest("resourceslices", slice))
		put(o.Object, strings.Split("spec.resources{}", "."), bad)
		w.refusedAtOnce(t, "spec.resources", bad, func() error { return controlPlane.Create(t.Context(), o, kube.DryRunAll) })
	}
}

// What a provider writes into the status of a slice is looked at in the consumer's cluster, where no consumer is
// listed: whoever replicates it there.
func TestAmountsOfAStatus(t *testing.T) {
	w := start(t)
	o := loose(t, honest("resourceslices", "granted"))
	o.SetNamespace(byHand)
	w.make(t, o)
	for _, bad := range badAmounts {
		granted := o.DeepCopy()
		put(granted.Object, strings.Split("status.resources{}", "."), bad)
		w.refusedAtOnce(t, "status.resources", bad, func() error { return w.admin.Status().Update(t.Context(), granted) })
	}
	granted := o.DeepCopy()
	put(granted.Object, strings.Split("status.resources{}", "."), "1e3")
	if err := w.admin.Status().Update(t.Context(), granted); err != nil {
		t.Errorf("an ordinary amount: %v", err)
	}
}

// A map of amounts has at most 32 of them.
func TestManyAmounts(t *testing.T) {
	w := start(t)
	for n, want := range map[int]bool{32: true, 33: false} {
		o := loose(t, honest("resourceslices", "many"))
		o.SetNamespace(byHand)
		many := map[string]any{}
		for i := range n {
			many[fmt.Sprintf("example.com/r%d", i)] = "1"
		}
		if err := unstructured.SetNestedMap(o.Object, many, "spec", "resources"); err != nil {
			t.Fatal(err)
		}
		if err := w.admin.Create(t.Context(), o, kube.DryRunAll); (err == nil) != want ||
			!want && !isRefusal(err, "at most 32 entries") {
			t.Errorf("%d amounts: %v", n, err)
		}
	}
}

// What was stored before the policies were there can be changed otherwise, and ends.
func TestStoredAmounts(t *testing.T) {
	w := start(t)
	for _, name := range []string{"shadowpods", "resourceslices"} {
		stored := loose(t, honest(name, "stored"))
		stored.SetName("stored-amount")
		stored.SetNamespace(byHand)
		place := "spec.resources{}"
		if name == "shadowpods" {
			place = "spec.pod.containers[].resources.requests{}"
		}
		put(stored.Object, strings.Split(place, "."), slow)
		w.without(t, []string{"bourse-pod-amounts", "bourse-slice-amounts"}, func() error {
			return w.admin.Create(t.Context(), stored)
		})
		w.eventually(t, "the policies hold again", func() error {
			again := stored.DeepCopy()
			again.SetName("again")
			again.SetResourceVersion("")
			if err := w.admin.Create(t.Context(), again, kube.DryRunAll); !isRefusal(err, "an amount has at most") {
				return fmt.Errorf("it is let in: %w", err)
			}
			return nil
		})
		stored.SetLabels(with(stored.GetLabels(), "changed", "true"))
		if err := w.admin.Update(t.Context(), stored); err != nil {
			t.Errorf("%s: a label: %v", name, err)
		}
		if err := w.admin.Delete(t.Context(), stored); err != nil {
			t.Errorf("%s: its end: %v", name, err)
		}
	}
}

// After a hundred such writes at once the API server serves others, and comes to rest.
func TestAHundredAmounts(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("rome", user))
	o := loose(t, honest("shadowpods", "hundred"))
	put(o.Object, strings.Split("spec.pod.containers[].resources.requests{}", "."), slow)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			one := o.DeepCopy()
			one.SetName(fmt.Sprintf("hundred-%d", i))
			if err := c.Create(t.Context(), one, kube.DryRunAll); !isRefusal(err, "an amount has at most") {
				t.Error(err)
			}
		})
	}
	all.Wait()
	within(t, "an ordinary write", func(ctx context.Context) error {
		return c.Create(ctx, honest("shadowpods", "hundred"), kube.DryRunAll)
	})
	within(t, "a list", func(ctx context.Context) error { return w.admin.List(ctx, &corev1.NamespaceList{}) })
	w.eventually(t, "the API server comes to rest", func() error {
		before := w.processorSeconds(t)
		time.Sleep(time.Second)
		if used := w.processorSeconds(t) - before; used > 0.5 {
			return fmt.Errorf("it uses %.1f processors", used)
		}
		return nil
	})
}

// refusedAtOnce checks that a write is refused by the words of the policy, which name the place.
func (w *world) refusedAtOnce(t *testing.T, place, bad string, write func() error) {
	t.Helper()
	began := time.Now()
	err := write()
	if took := time.Since(began); took > atOnce || !isRefusal(err, "an amount has at most 32 characters") ||
		!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), named(place)) {
		t.Errorf("%s: %s, after %s: %v", place, bad, took, err)
	}
}

// named is what a message says of a place: the list that it is in, or its field.
func named(place string) string {
	before, _, _ := strings.Cut(strings.TrimSuffix(place, "{}"), "[]")
	if strings.HasPrefix(before, "spec.pod.resources") || before == "spec.pod.overhead" {
		return "spec.pod "
	}
	return before
}

func within(t *testing.T, what string, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), atOnce)
	defer cancel()
	began := time.Now()
	if err := do(ctx); err != nil {
		t.Errorf("%s within %s: %v", what, atOnce, err)
	}
	t.Logf("%s takes %s", what, time.Since(began).Round(time.Millisecond))
}

// processorSeconds is what the API server says that it has used.
func (w *world) processorSeconds(t *testing.T) float64 {
	t.Helper()
	c, err := kubernetes.NewForConfig(w.cluster.Config())
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if used, is := strings.CutPrefix(lines.Text(), "process_cpu_seconds_total "); is {
			seconds, err := strconv.ParseFloat(used, 64)
			if err != nil {
				t.Fatal(err)
			}
			return seconds
		}
	}
	t.Fatal("the API server does not say how much processor time it used")
	return 0
}

// make creates an object, and deletes it at the end of the test.
func (w *world) make(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	if err := w.admin.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.admin.Delete(context.Background(), o); kube.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

// without has policies refuse nothing while it does something.
func (w *world) without(t *testing.T, names []string, do func() error) {
	t.Helper()
	act := func(actions ...admissionv1.ValidationAction) {
		for _, name := range names {
			b := &admissionv1.ValidatingAdmissionPolicyBinding{}
			if err := w.admin.Get(t.Context(), kube.ObjectKey{Name: name}, b); err != nil {
				t.Fatal(err)
			}
			b.Spec.ValidationActions = actions
			if err := w.admin.Update(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
	}
	act(admissionv1.Audit)
	w.eventually(t, "a write without the policies", do)
	act(admissionv1.Deny, admissionv1.Audit)
}

// loose is an object whose amounts may be any text.
func loose(t *testing.T, o kube.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	delete(fields, "status")
	out := &unstructured.Unstructured{Object: fields}
	switch o.(type) {
	case *offv1beta1.ShadowPod:
		out.SetGroupVersionKind(offv1beta1.SchemeGroupVersion.WithKind("ShadowPod"))
	case *authv1beta1.ResourceSlice:
		out.SetGroupVersionKind(authv1beta1.GroupVersion.WithKind("ResourceSlice"))
	}
	return out
}

// put writes an amount to a place: into the first item of each list, and under cpu in a map.
func put(in map[string]any, steps []string, amount string) {
	name, list := strings.CutSuffix(steps[0], "[]")
	name, amounts := strings.CutSuffix(name, "{}")
	switch {
	case amounts:
		have, _ := in[name].(map[string]any)
		if have == nil {
			have = map[string]any{}
			in[name] = have
		}
		have["cpu"] = amount
	case list:
		items, _ := in[name].([]any)
		if len(items) == 0 {
			items = []any{map[string]any{"name": "added", "path": "added"}}
			in[name] = items
		}
		put(items[0].(map[string]any), steps[1:], amount)
	case len(steps) == 1:
		in[name] = amount
		if name == "divisor" {
			in["resource"] = "limits.cpu"
		}
	default:
		below, is := in[name].(map[string]any)
		if !is {
			below = map[string]any{}
			in[name] = below
		}
		put(below, steps[1:], amount)
	}
}

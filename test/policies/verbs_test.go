package policies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
)

// right is what an account may do by Liqo's roles.
type right struct{ account, namespace, resource, verb string }

// admitted is all that the accounts that Liqo gives a brokered consumer may do at its provider, and
// why the policies let it. What the roles allow and is not here is refused; what is here and not
// allowed any more is stale. A new version of Liqo that gives more rights fails the test.
var admitted = []struct{ account, namespace, resource, verbs, why string }{
	{"control plane", tenant, "authentication.liqo.io/resourceslices", "create update patch",
		"its own slice, of class bourse, under the name that its reservations say; what it is granted is in the status"},
	{"control plane", tenant, "authentication.liqo.io/renews", "create update patch",
		"by it Liqo brings the next certificate, of the Tenant in the same namespace and no other"},
	{"control plane", tenant, "offloading.liqo.io/namespacemaps",
		"create update patch", "its namespaces, by names that end in its own ID"},
	{"control plane", tenant,
		"authentication.liqo.io/resourceslices authentication.liqo.io/renews offloading.liqo.io/namespacemaps", "get list watch delete deletecollection", "they are its own: by deleting them it gives back what it has"},
	{"control plane", tenant,
		"authentication.liqo.io/resourceslices/status authentication.liqo.io/renews/status offloading.liqo.io/namespacemaps/status", "get list watch create delete deletecollection", "Kubernetes serves nothing by these but get, which the object shows as well"},
	{"virtual kubelet", mapped, "configmaps secrets services persistentvolumeclaims", "create update patch",
		"what pods need; without labels on which Liqo acts, types on which Kubernetes acts, addresses, volumes of others"},
	{"virtual kubelet", mapped, "networking.k8s.io/ingresses", "create update patch",
		"what Liqo reflects; how many there may be the quota of the namespace says, by default none"},
	{"virtual kubelet", mapped, "offloading.liqo.io/shadowpods",
		"create update patch", "its pods, of the baseline, on the nodes of its pool; counted by Liqo's quota"},
	{"virtual kubelet", mapped, "offloading.liqo.io/shadowendpointslices",
		"create update patch", "addresses behind its own Services; who reaches them the NetworkPolicy of the namespace says"},
	{"virtual kubelet", mapped,
		"configmaps secrets services persistentvolumeclaims events networking.k8s.io/ingresses offloading.liqo.io/shadowpods offloading.liqo.io/shadowendpointslices", "get list watch delete", "the namespace was made for the consumer, and holds what is its own"},
	{"virtual kubelet", mapped, "pods metrics.k8s.io/pods", "get list watch", "its own pods"},
	{"virtual kubelet", mapped, "pods/log", "get list", "its own pods"},
	{"virtual kubelet", mapped, "pods/exec pods/attach", "create",
		"its own pods: what runs there already is of its choice"},
	{"virtual kubelet", mapped, "pods/portforward", "create get", "its own pods"},
	{"virtual kubelet", "", "metrics.liqo.io/scrape/metrics", "get list watch",
		"Liqo's metrics of its own pods; nothing is written"},
}

// Each account that Liqo gives a consumer tries, on the real API server, every verb on every
// resource that its roles allow.
func TestEveryVerb(t *testing.T) {
	w := start(t)
	why, tried := map[right]string{}, map[right]bool{}
	for _, a := range admitted {
		for _, resource := range strings.Fields(a.resource) {
			for _, verb := range strings.Fields(a.verbs) {
				why[right{a.account, a.namespace, resource, verb}] = a.why
			}
		}
	}
	for _, a := range []account{controlPlaneOf("rome"), kubeletOf("rome", user)} {
		everywhere := w.rights(t, a, own)
		for _, namespace := range []string{"", tenant, mapped} {
			allowed := everywhere
			if namespace != "" {
				allowed = w.rights(t, a, namespace)
				for r := range everywhere {
					delete(allowed, r)
				}
			}
			for _, r := range slices.Sorted(maps.Keys(allowed)) {
				resource, verb, _ := strings.Cut(r, " ")
				key := right{a.name, namespace, resource, verb}
				tried[key] = true
				t.Run(fmt.Sprintf("%s/%s/%s/%s", a.name, namespace, strings.ReplaceAll(resource, "/", "."), verb),
					func(t *testing.T) {
						err := w.try(t, a, key)
						switch reason, want := why[key]; {
						case apierrors.IsForbidden(err) && !isPolicy(err):
							t.Fatalf("its roles do not allow it after all: %v", err)
						case want && err != nil && (isWrite(verb) || isPolicy(err)) && !isNotServed(err):
							t.Errorf("it is refused, want it to be let in (%s): %v", reason, err)
						case !want && !isRefusal(err, "writes no Events", "is the provider's to say"):
							t.Errorf("it is not refused for what it is (%v), and this test does not say why it is let in", err)
						}
					})
			}
		}
	}
	for r, reason := range why {
		if !tried[r] {
			t.Errorf("no role of Liqo's allows %+v any more (%s)", r, reason)
		}
	}
}

// isPolicy says whether one of our policies refused, whichever it was.
func isPolicy(err error) bool {
	return err != nil && strings.Contains(err.Error(), "ValidatingAdmissionPolicy 'bourse-")
}

// isRefusal says whether one of our policies refused, in one of these words.
func isRefusal(err error, says ...string) bool {
	return isPolicy(err) && slices.ContainsFunc(says,
		func(words string) bool { return words != "" && strings.Contains(err.Error(), words) })
}

func isWrite(verb string) bool { return verb == "create" || verb == "update" || verb == "patch" }

// isNotServed says whether the API server has no such thing: a pod to run a command in, or a
// subresource that can be created.
func isNotServed(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}

// rights are what an account may do in a namespace beyond what everybody may, as "RESOURCE VERB".
func (w *world) rights(t *testing.T, a account, namespace string) map[string]bool {
	t.Helper()
	ask := func(a account) map[string]bool {
		review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
		if err := w.mustAs(t, a).Create(t.Context(), review); err != nil {
			t.Fatal(err)
		}
		if review.Status.Incomplete {
			t.Fatalf("the API server does not know all rights: %s", review.Status.EvaluationError)
		}
		all := map[string]bool{}
		for _, rule := range review.Status.ResourceRules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						name := resource
						if group != "" {
							name = group + "/" + resource
						}
						if strings.Contains(name+verb, "*") {
							t.Fatalf("%s may do everything: %s %s", a.UserName, name, verb)
						}
						all[name+" "+verb] = true
					}
				}
			}
		}
		return all
	}
	all := ask(a)
	for r := range ask(account{"nobody", rest.ImpersonationConfig{UserName: "nobody",
		Groups: []string{"system:authenticated"}}}) {
		delete(all, r)
	}
	return all
}

// versions are those of the groups of Liqo's roles.
var versions = map[string]string{"": "v1", "networking.k8s.io": "v1", "offloading.liqo.io": "v1beta1",
	"authentication.liqo.io": "v1beta1", "metrics.k8s.io": "v1beta1", "metrics.liqo.io": "v1"}

// try does it: writes are what Liqo would write there, and are taken away again.
func (w *world) try(t *testing.T, a account, r right) error {
	t.Helper()
	config := w.cluster.Config()
	config.Impersonate, config.QPS = a.ImpersonationConfig, -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	group, resource, found := "", r.resource, false
	if before, after, cut := strings.Cut(r.resource, "/"); cut && strings.Contains(before, ".") {
		group, resource, found = before, after, true
	}
	resource, sub, _ := strings.Cut(resource, "/")
	path := "/api/v1"
	if found {
		path = "/apis/" + group + "/" + versions[group]
	}
	if r.namespace != "" {
		path += "/namespaces/" + r.namespace
	}
	path += "/" + resource
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	var object kube.Object
	name := fmt.Sprintf("try-%d", w.tries.Add(1))
	if o := honest(resource, name); o != nil && o.GetNamespace() == r.namespace {
		object, name = o, o.GetName()
	}
	one := path + "/" + name
	if sub != "" {
		one += "/" + sub
	}
	if r.verb != "create" && object != nil { // it has to be there: an admin makes it
		if err := w.admin.Create(ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	if object != nil {
		defer w.remove(t, object.DeepCopyObject().(kube.Object))
	}
	body := func() []byte {
		kind, err := w.admin.GroupVersionKindFor(object)
		if err != nil {
			t.Fatal(err)
		}
		object.GetObjectKind().SetGroupVersionKind(kind)
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	do := client.CoreV1().RESTClient()
	switch {
	case r.verb == "create" && sub != "":
		return do.Post().AbsPath(one).Do(ctx).Error()
	case r.verb == "create":
		return do.Post().AbsPath(path).Param("fieldManager", "reflection.liqo.io").Body(body()).Do(ctx).Error()
	case r.verb == "update":
		object.SetLabels(with(object.GetLabels(), "changed", "true"))
		return do.Put().AbsPath(one).Body(body()).Do(ctx).Error()
	case r.verb == "patch":
		return do.Patch(types.MergePatchType).AbsPath(one).Body([]byte(`{"metadata":{"labels":{"changed":"true"}}}`)).Do(ctx).Error()
	case r.verb == "delete":
		return do.Delete().AbsPath(one).Do(ctx).Error()
	case r.verb == "deletecollection" && sub == "":
		return do.Delete().AbsPath(path).Body(&metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}).Do(ctx).Error()
	case r.verb == "list" && sub == "":
		return do.Get().AbsPath(path).Do(ctx).Error()
	case r.verb == "watch" && sub == "":
		return do.Get().AbsPath(path).Param("watch", "true").Param("timeoutSeconds", "1").Do(ctx).Error()
	}
	return do.Get().AbsPath(one).Do(ctx).Error()
}

// remove deletes an object, without what protects it: nothing runs here that would take that off.
func (w *world) remove(t *testing.T, o kube.Object) {
	t.Helper()
	ctx := context.Background()
	free := kube.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	if err := errors.Join(kube.IgnoreNotFound(w.admin.Delete(ctx, o)),
		kube.IgnoreNotFound(w.admin.Patch(ctx, o, free))); err != nil {
		t.Error(err)
	}
}

func with(all map[string]string, key, value string) map[string]string {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}

// What a consumer may not write on any object: on creation, on an update and on a patch.
func TestMetadata(t *testing.T) {
	w := start(t)
	type bad struct {
		says   string
		change func(kube.Object)
	}
	label := func(key, value string) bad {
		return bad{"labels", func(o kube.Object) { o.SetLabels(with(o.GetLabels(), key, value)) }}
	}
	annotation := func(key, value string) bad { return bad{"Liqo's annotations", annotated(key, value)} }
	finalizer := func(name string) bad {
		return bad{"finalizers", func(o kube.Object) { o.SetFinalizers([]string{name}) }}
	}
	all := map[string]bad{
		"an identity":                   label("liqo.io/identity-type", "ControlPlane"),
		"a nonce":                       label("liqo.io/nonce", "true"),
		"a signed nonce":                label("liqo.io/signed-nonce", "true"),
		"a webhook's certificate":       label("liqo.io/webhook", "true"),
		"a gateway":                     label("networking.liqo.io/component", "gateway"),
		"a gateway's keys":              label("networking.liqo.io/gateway-resource", "true"),
		"a virtual kubelet":             label("offloading.liqo.io/component", "virtual-kubelet"),
		"one of another cluster":        label("liqo.io/remote-cluster-id", "paris"),
		"one to replicate":              label("liqo.io/replication", "true"),
		"a label that there is not yet": label("new.liqo.io/x", "y"),
		"a tenant's namespace":          annotation("liqo.io/remote-tenant-namespace", "x"),
		"a webhook's name":              annotation("liqo.io/webhook-service-name", "x"),
		"a cordon":                      annotation("liqo.io/cordon", "false"),
		"a map's namespace":             annotation("liqo.io/managed-by-namespace-map", "x/y"),
		"an annotation that is new":     annotation("new.liqo.io/x", "y"),
		"a finalizer":                   finalizer("rome.example/never"),
		"a finalizer of Kubernetes":     finalizer("foregroundDeletion"),
		"an owner": {"ownerReferences", func(o kube.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "1"}})
		}},
	}
	for resource, a := range map[string]account{
		"configmaps": kubeletOf("rome", user), "secrets": kubeletOf("rome",
			user), "services": kubeletOf("rome", user), "persistentvolumeclaims": kubeletOf("rome", user),
		"ingresses": kubeletOf("rome", user), "shadowpods": kubeletOf("rome",
			user), "shadowendpointslices": kubeletOf("rome", user),
		"resourceslices": controlPlaneOf("rome"), "renews": controlPlaneOf("rome"), "namespacemaps": controlPlaneOf("rome"),
	} {
		t.Run(resource, func(t *testing.T) {
			c := w.mustAs(t, a)
			there := honest(resource, "there")
			if err := c.Create(t.Context(), there); err != nil {
				t.Fatal(err)
			}
			defer w.remove(t, there)
			for what, bad := range all {
				created := honest(resource, "created")
				bad.change(created)
				if err := c.Create(t.Context(), created, kube.DryRunAll); !isRefusal(err, bad.says) {
					t.Errorf("%s is created: %v", what, err)
				}
				updated := there.DeepCopyObject().(kube.Object)
				bad.change(updated)
				if err := c.Update(t.Context(), updated, kube.DryRunAll); !isRefusal(err, bad.says) {
					t.Errorf("it becomes %s: %v", what, err)
				}
				patched := there.DeepCopyObject().(kube.Object)
				bad.change(patched)
				if err := c.Patch(t.Context(), patched, kube.MergeFrom(there), kube.DryRunAll); !isRefusal(err, bad.says) {
					t.Errorf("it is patched into %s: %v", what, err)
				}
			}
			w.keeps(t, c, there)
		})
	}
}

// keeps demands that a consumer leaves on an object what the provider has put there.
func (w *world) keeps(t *testing.T, c kube.Client, there kube.Object) {
	t.Helper()
	before := there.DeepCopyObject().(kube.Object)
	there.SetFinalizers(append(there.GetFinalizers(), "oslo.example/hold"))
	there.SetAnnotations(with(there.GetAnnotations(), "liqo.io/cordon-tenant", "true"))
	if err := w.admin.Patch(t.Context(), there, kube.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	try := func(what, says string, change func(kube.Object)) {
		changed := there.DeepCopyObject().(kube.Object)
		change(changed)
		if err := c.Patch(t.Context(), changed, kube.MergeFrom(there), kube.DryRunAll); !isRefusal(err, says) {
			t.Errorf("a consumer takes off %s: %v", what, err)
		}
	}
	try("the finalizer", "finalizers", func(o kube.Object) { o.SetFinalizers(nil) })
	try("the cordon's value", "Liqo's annotations",
		func(o kube.Object) { o.SetAnnotations(with(o.GetAnnotations(), "liqo.io/cordon-tenant", "false")) })
	if there.GetNamespace() == tenant {
		try("the cordon", "Liqo's annotations", func(o kube.Object) {
			all := maps.Clone(o.GetAnnotations())
			delete(all, "liqo.io/cordon-tenant")
			o.SetAnnotations(all)
		})
	}
	same := there.DeepCopyObject().(kube.Object)
	same.SetLabels(with(same.GetLabels(), "team", "green"))
	if err := c.Patch(t.Context(), same, kube.MergeFrom(there), kube.DryRunAll); err != nil {
		t.Errorf("a consumer cannot change what is its own any more: %v", err)
	}
}

// A consumer that was peered by hand writes what it likes, as before.
func TestByHand(t *testing.T) {
	w := start(t)
	c := w.mustAs(t, kubeletOf("milan", "milan-slice-1"))
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: byHand, Name: "any",
		Labels: map[string]string{"liqo.io/x": "y"}, Finalizers: []string{"milan.example/x"}}, Type: "milan.example/x"}
	if err := c.Create(t.Context(), s, kube.DryRunAll); err != nil {
		t.Error(err)
	}
	if err := c.Create(t.Context(), &corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: byHand, Name: "any"},
		InvolvedObject: corev1.ObjectReference{Namespace: byHand}}, kube.DryRunAll); err != nil {
		t.Error(err)
	}
}

package kubeapitest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

func testDiscovery(s *suite) {
	client, err := rest.HTTPClientFor(s.cfg)
	s.ok(err)
	mapper, err := apiutil.NewDynamicRESTMapper(s.cfg, client)
	s.ok(err)
	for _, c := range []struct {
		kind       schema.GroupVersionKind
		resource   string
		namespaced bool
	}{
		{corev1.SchemeGroupVersion.WithKind("Pod"), "pods", true},
		{corev1.SchemeGroupVersion.WithKind("Node"), "nodes", false},
		{coordinationv1.SchemeGroupVersion.WithKind("Lease"), "leases", true},
		{version.WithKind("Widget"), "widgets", true},
	} {
		m, err := mapper.RESTMapping(c.kind.GroupKind(), c.kind.Version)
		s.ok(err)
		s.equal(m.Resource.Resource, c.resource, "resource of "+c.kind.Kind)
		s.equal(m.Scope.Name() == meta.RESTScopeNameNamespace, c.namespaced, c.kind.Kind+" is namespaced")
	}
	_, err = mapper.RESTMapping(schema.GroupKind{Group: "nowhere.bourse.dev", Kind: "Nothing"})
	s.refused(err, meta.IsNoMatchError, "mapping of an unknown kind")

	d := discovery.NewDiscoveryClientForConfigOrDie(s.cfg)
	v, err := d.ServerVersion()
	s.ok(err)
	s.equal(v.Major, "1", "major version")
	resources, err := d.ServerResourcesForGroupVersion(version.String())
	s.ok(err)
	names := map[string]bool{}
	for _, r := range resources.APIResources {
		names[r.Name] = true
	}
	s.equal(names, map[string]bool{"widgets": true, "widgets/status": true, "gadgets": true, "gadgets/status": true},
		"resources of the group")

	_, err = s.dynamic.Resource(version.WithResource("things")).Namespace(s.ns).List(s.ctx,
		metav1.ListOptions{})
	s.refused(err, apierrors.IsNotFound, "list of an unknown resource")
	ns, err := s.kube.CoreV1().Namespaces().Get(s.ctx, "kube-system", metav1.GetOptions{})
	s.ok(err)
	if ns.UID == "" {
		s.Error("kube-system has no UID")
	}
}

func testCreate(s *suite) {
	began := time.Now().Add(-time.Minute) // clocks of two machines
	w := widget("a", object{"size": int64(1)})
	w.Object["status"] = object{"phase": "mine"}
	made := s.create(w)
	if made.GetUID() == "" || made.GetResourceVersion() == "" || made.GetCreationTimestamp().Time.Before(began) {
		s.Errorf("system fields are missing: %v", made.Object["metadata"])
	}
	s.equal(made.GetGeneration(), 1, "generation")
	s.equal(made.Object["status"], nil, "status given at creation")
	s.equal(made.Object["spec"], object{"size": 1}, "spec")
	s.equal(s.get("a"), made, "what is read after what was created")

	_, err := s.widgets.Create(s.ctx, widget("a", nil), metav1.CreateOptions{})
	s.refused(err, apierrors.IsAlreadyExists, "second of the same name")
	_, err = s.widgets.Get(s.ctx, "none", metav1.GetOptions{})
	s.refused(err, apierrors.IsNotFound, "get of nothing")
	_, err = s.widgets.Create(s.ctx, made, metav1.CreateOptions{})
	if err == nil {
		s.Error("an object with a resourceVersion was created")
	}
}

func testNames(s *suite) {
	first, second := widget("", nil), widget("", nil)
	first.SetGenerateName("gen-")
	second.SetGenerateName("gen-")
	a, b := s.create(first).GetName(), s.create(second).GetName()
	if a == b || !strings.HasPrefix(a, "gen-") || len(a) != len("gen-")+5 {
		s.Errorf("generated names %q, %q", a, b)
	}
	for _, name := range []string{"", "Upper", "under_score", "-dash", strings.Repeat("x", 254)} {
		_, err := s.widgets.Create(s.ctx, widget(name, nil), metav1.CreateOptions{})
		s.refused(err, apierrors.IsInvalid, fmt.Sprintf("name %q", name))
	}
	bad := widget("label", nil)
	bad.SetLabels(map[string]string{"k": "not a label"})
	_, err := s.widgets.Create(s.ctx, bad, metav1.CreateOptions{})
	s.refused(err, apierrors.IsInvalid, "label value with blanks")
	elsewhere := widget("x", nil)
	elsewhere.SetNamespace("default")
	_, err = s.widgets.Create(s.ctx, elsewhere, metav1.CreateOptions{})
	s.refused(err, apierrors.IsBadRequest, "namespace other than the path's")
	kind := widget("x", nil)
	kind.SetKind("Gadget")
	_, err = s.widgets.Create(s.ctx, kind, metav1.CreateOptions{})
	s.refused(err, apierrors.IsInvalid, "kind other than the path's")
}

func testUpdate(s *suite) {
	made := s.create(widget("a", object{"size": int64(1)}))
	changed := made.DeepCopy()
	changed.Object["spec"] = object{"size": int64(2)}
	updated := s.update(changed)
	if updated.GetResourceVersion() == made.GetResourceVersion() {
		s.Error("an update left resourceVersion as it was")
	}
	s.equal(updated.GetUID(), made.GetUID(), "uid")
	s.equal(s.update(updated).GetResourceVersion(), updated.GetResourceVersion(),
		"resourceVersion after an update that changes nothing")

	_, err := s.widgets.Update(s.ctx, changed, metav1.UpdateOptions{})
	s.refused(err, apierrors.IsConflict, "update of an old revision")
	unconditional := updated.DeepCopy()
	unconditional.SetResourceVersion("")
	_, err = s.widgets.Update(s.ctx, unconditional, metav1.UpdateOptions{})
	s.refused(err, apierrors.IsInvalid, "update without resourceVersion")
	other := updated.DeepCopy()
	other.SetUID("00000000-0000-0000-0000-000000000000")
	_, err = s.widgets.Update(s.ctx, other, metav1.UpdateOptions{})
	s.refused(err, apierrors.IsConflict, "update of another uid")
	_, err = s.widgets.Update(s.ctx, widget("none", nil), metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) { // which comes first is not the point
		s.Errorf("update of nothing: %v", err)
	}

	forged := s.get("a")
	forged.SetCreationTimestamp(metav1.NewTime(time.Unix(0, 0)))
	forged.SetGeneration(99)
	s.equal(s.update(forged), updated, "what system fields become that a client sets")
}

func testGeneration(s *suite) {
	w := s.create(widget("a", object{"size": int64(1)}))
	w.SetLabels(map[string]string{"k": "v"})
	w = s.update(w)
	s.equal(w.GetGeneration(), 1, "generation after a change of labels")
	w.Object["spec"] = object{"size": int64(2)}
	w = s.update(w)
	s.equal(w.GetGeneration(), 2, "generation after a change of spec")
	w.Object["status"] = object{"phase": "Ready"}
	w = s.update(w, "status")
	s.equal(w.GetGeneration(), 2, "generation after a change of status")
}

func testStatus(s *suite) {
	w := s.create(widget("a", object{"size": int64(1)}))
	w.Object["status"] = object{"phase": "Ready"}
	s.equal(s.update(w.DeepCopy()).GetResourceVersion(), w.GetResourceVersion(),
		"resourceVersion after a status sent to the object")

	w.Object["spec"] = object{"size": int64(7)}
	w.SetLabels(map[string]string{"k": "v"})
	w = s.update(w, "status")
	s.equal(w.Object["status"], object{"phase": "Ready"}, "status")
	s.equal(w.Object["spec"], object{"size": 1}, "spec sent to /status")
	s.equal(w.GetLabels(), nil, "labels sent to /status")

	delete(w.Object, "status")
	w.Object["spec"] = object{"size": int64(2)}
	w = s.update(w)
	s.equal(w.Object["status"], object{"phase": "Ready"}, "status after an update without one")

	through, err := s.widgets.Get(s.ctx, "a", metav1.GetOptions{}, "status")
	s.ok(err)
	s.equal(through, w, "what /status reads")
	old := w.DeepCopy()
	w.Object["status"] = object{"phase": "Gone"}
	s.update(w, "status")
	old.Object["status"] = object{"phase": "Late"}
	_, err = s.widgets.UpdateStatus(s.ctx, old, metav1.UpdateOptions{})
	s.refused(err, apierrors.IsConflict, "status update of an old revision")
}

func testConcurrentUpdates(s *suite) {
	const writers = 16
	made := s.create(widget("a", object{"count": int64(0)}))
	errs := inParallel(writers, func(i int) error {
		w := made.DeepCopy()
		w.Object["spec"] = object{"winner": int64(i)}
		_, err := s.widgets.Update(s.ctx, w, metav1.UpdateOptions{})
		return err
	})
	conflicts := 0
	for _, err := range errs {
		if apierrors.IsConflict(err) {
			conflicts++
		} else if err != nil {
			s.Error(err)
		}
	}
	s.equal(conflicts, writers-1, "conflicts when all update one revision")

	b := s.create(widget("b", object{"count": int64(0)}))
	patiently := retry.DefaultRetry
	patiently.Steps = 10 * writers
	for _, err := range inParallel(writers, func(int) error {
		return retry.RetryOnConflict(patiently, func() error {
			w, err := s.widgets.Get(s.ctx, b.GetName(), metav1.GetOptions{})
			if err != nil {
				return err
			}
			count, _, _ := unstructured.NestedInt64(w.Object, "spec", "count")
			w.Object["spec"] = object{"count": count + 1}
			_, err = s.widgets.Update(s.ctx, w, metav1.UpdateOptions{})
			return err
		})
	}) {
		s.ok(err)
	}
	s.equal(s.get("b").Object["spec"], object{"count": writers}, "count after one increment each")
}

func inParallel(n int, f func(i int) error) []error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return errs
}

func testDryRun(s *suite) {
	dry := []string{metav1.DryRunAll}
	_, err := s.widgets.Create(s.ctx, widget("a", nil), metav1.CreateOptions{DryRun: dry})
	s.ok(err)
	_, err = s.widgets.Get(s.ctx, "a", metav1.GetOptions{})
	s.refused(err, apierrors.IsNotFound, "what a dry run created")
	made := s.create(widget("b", object{"size": int64(1)}))
	changed := made.DeepCopy()
	changed.Object["spec"] = object{"size": int64(2)}
	shown, err := s.widgets.Update(s.ctx, changed, metav1.UpdateOptions{DryRun: dry})
	s.ok(err)
	s.equal(shown.Object["spec"], object{"size": 2}, "what a dry run shows")
	s.ok(s.widgets.Delete(s.ctx, "b", metav1.DeleteOptions{DryRun: dry}))
	s.equal(s.get("b"), made, "what a dry run leaves")
}

func testBuiltIn(s *suite) {
	pods := s.kube.CoreV1().Pods(s.ns)
	pod := s.pod("p", "")
	s.equal(pod.Status.Phase, corev1.PodPending, "phase of a new pod")
	s.equal(pod.Generation, 1, "generation of a new pod")
	pod.Status.Phase = corev1.PodRunning
	pod, err := pods.UpdateStatus(s.ctx, pod, metav1.UpdateOptions{})
	s.ok(err)
	pod.Labels = map[string]string{"k": "v"}
	pod.Status.Phase = corev1.PodFailed
	pod, err = pods.Update(s.ctx, pod, metav1.UpdateOptions{})
	s.ok(err)
	s.equal(pod.Status.Phase, corev1.PodRunning, "phase after an update of the pod")

	secret, err := s.kube.CoreV1().Secrets(s.ns).Create(s.ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"key": "value"},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.equal(string(secret.Data["key"]), "value", "stringData as data")
	s.equal(secret.Type, corev1.SecretTypeOpaque, "type of a secret")

	maps := s.kube.CoreV1().ConfigMaps(s.ns)
	cm, err := maps.Create(s.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"},
		Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	s.ok(err)
	s.equal(cm.Generation, 0, "generation of a ConfigMap")
	cm.ResourceVersion, cm.Data["a"] = "", "2"
	cm, err = maps.Update(s.ctx, cm, metav1.UpdateOptions{})
	s.ok(err) // of built-in types most may be updated without a revision
	s.equal(cm.Data, map[string]string{"a": "2"}, "data after an unconditional update")

	node, err := s.kube.CoreV1().Nodes().Create(s.ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "kubeapitest-"},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64"}},
	}, metav1.CreateOptions{})
	s.ok(err)
	s.equal(node.Status.NodeInfo.Architecture, "amd64", "status that a node is created with")
	s.ok(s.kube.CoreV1().Nodes().Delete(s.ctx, node.Name, metav1.DeleteOptions{}))
}

package lab_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/test/lab"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// crd is a kind as ours are, and an object of it in the same file.
const crd = `
apiVersion: lab.test/v1
kind: Thing
metadata: {name: one}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.lab.test}
spec:
  group: lab.test
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer}}}}}}
`

const policy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [lab.test], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [things]}]
  validations: [{expression: "object.spec.size < 10", message: "too large"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
`

func TestCluster(t *testing.T) {
	l := lab.Test(t)
	c, err := l.Cluster(t.Context(), lab.ClusterOptions{Name: "rome", Nodes: []lab.Node{{Name: "node-1"}}})
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetes.NewForConfigOrDie(c.Config())

	t.Run("a pod runs where the scheduler puts it, and ends as Failed", func(t *testing.T) { podRuns(t, client) })
	t.Run("a pod that ignores SIGTERM is killed after its grace period", func(t *testing.T) { podIgnores(t, client) })
	t.Run("nodes get ready and silent", func(t *testing.T) { nodesChange(t, c, client) })
	t.Run("kinds and policies are applied", func(t *testing.T) { manifestsApply(t, c) })
	t.Run("a ServiceAccount may what RBAC says", func(t *testing.T) { accountIsLimited(t, c, client) })
	t.Run("requests are counted by who asked", func(t *testing.T) { requestsAreCounted(t, c) })
	t.Run("the API server comes back where it was", func(t *testing.T) { apiServerReturns(t, c) })
	t.Run("etcd is restored to an older state", func(t *testing.T) { etcdIsRestored(t, c, client) })
}

func podRuns(t *testing.T, client kubernetes.Interface) {
	made := createPod(t, client, "runs")
	pod := made
	eventually(t, "the pod runs", func() bool {
		pod = get(t, client, pod.Name)
		return pod.Status.Phase == corev1.PodRunning
	})
	if pod.Spec.NodeName != "node-1" || !strings.HasPrefix(pod.Status.PodIP, "10.0.") {
		t.Errorf("pod is on %q with address %q, want node-1 and 10.0.x.y", pod.Spec.NodeName, pod.Status.PodIP)
	}
	podEnds(t, client, made)
}

// podIgnores is a pod that ends after its grace period of a second.
func podIgnores(t *testing.T, client kubernetes.Interface) {
	pod := createPod(t, client, "stays", "lab.bourse.dev/ignores", "SIGTERM")
	killed := podEnds(t, client, pod)
	end := killed.Status.ContainerStatuses[0].State.Terminated
	if end.FinishedAt.Before(killed.DeletionTimestamp) {
		t.Errorf("it was killed at %s, before its grace period ended at %s", end.FinishedAt, killed.DeletionTimestamp)
	}
}

// podEnds deletes a pod when it runs, and returns it as it was last. What a kubelet writes is in package real.
func podEnds(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	until, patience := metav1.SingleObject(metav1.ObjectMeta{Name: pod.Name}), int64(180)
	until.ResourceVersion, until.TimeoutSeconds = pod.ResourceVersion, &patience
	w, err := client.CoreV1().Pods("default").Watch(t.Context(), until)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	grace, deleted := int64(1), false
	seen := []string{string(pod.Status.Phase)}
	for event := range w.ResultChan() {
		p, ok := event.Object.(*corev1.Pod)
		if !ok {
			t.Fatalf("the watch says %+v", event.Object)
		}
		if event.Type == watch.Deleted {
			if want := []string{"Pending", "ContainerCreating", "Running", "Failed"}; !slices.Equal(seen, want) {
				t.Errorf("the pod was %v, and was to be %v", seen, want)
			}
			return pod
		}
		if period := p.DeletionGracePeriodSeconds; period != nil && *period == 0 {
			continue // its removal, which sets the end of the grace period to now
		}
		pod = p
		is := string(p.Status.Phase)
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Waiting != nil {
				is = c.State.Waiting.Reason
			}
		}
		if is != seen[len(seen)-1] {
			seen = append(seen, is)
		}
		if p.Status.Phase == corev1.PodRunning && !deleted {
			deleted = true
			if err := client.CoreV1().Pods("default").Delete(t.Context(), pod.Name,
				metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("the watch ended before the pod")
	return nil
}

func nodesChange(t *testing.T, c *lab.Cluster, client kubernetes.Interface) {
	ready := func(name string) bool {
		node, err := client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		schedulable := true
		for _, taint := range node.Spec.Taints {
			schedulable = schedulable && taint.Key != corev1.TaintNodeNotReady
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady {
				return condition.Status == corev1.ConditionTrue && schedulable
			}
		}
		return false
	}
	if err := c.Restart(t.Context(), lab.Kwok); err != nil {
		t.Fatal(err)
	}
	gpu := corev1.ResourceList{"cpu": resource.MustParse("64"), "nvidia.com/gpu": resource.MustParse("8")}
	err := c.AddNodes(t.Context(),
		lab.Node{Name: "gpu", Resources: gpu, Unschedulable: true, Labels: map[string]string{"zone": "a"}},
		lab.Node{Name: "silent", NotReady: true})
	if err != nil {
		t.Fatal(err)
	}
	if !ready("gpu") || ready("silent") {
		t.Fatalf("gpu ready: %v, silent ready: %v, want true and false", ready("gpu"), ready("silent"))
	}
	for _, node := range []string{"gpu", "silent"} {
		want := node == "silent"
		if err := c.SetReady(t.Context(), node, want); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the node changes", func() bool { return ready(node) == want })
	}
	if err := client.CoreV1().Nodes().Delete(t.Context(), "silent", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func manifestsApply(t *testing.T, c *lab.Cluster) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.yaml": crd, "kustomization.yaml": "resources: [a.yaml]",
		"notes.txt": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second time changes nothing
		if err := c.ApplyFS(t.Context(), os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
	}
	things := dynamic.NewForConfigOrDie(c.Config()).Resource(schema.GroupVersionResource{Group: "lab.test",
		Version: "v1", Resource: "things"})
	if _, err := things.Namespace("default").Get(t.Context(), "one", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if err := c.Apply(t.Context(), []byte(policy)); err != nil {
		t.Fatal(err)
	}
	large := strings.Split(strings.NewReplacer("one", "large", "size: 3", "size: 30").Replace(crd), "---")[0]
	eventually(t, "the policy denies", func() bool {
		err := c.Apply(t.Context(), []byte(large))
		return err != nil && strings.Contains(err.Error(), "too large")
	})
}

func accountIsLimited(t *testing.T, c *lab.Cluster, client kubernetes.Interface) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "reader", Namespace: "default"}}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "reader"}},
	}
	_, err1 := client.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{})
	_, err2 := client.RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{})
	_, err3 := client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	config, err := c.ServiceAccount(t.Context(), "default", "reader")
	if err != nil {
		t.Fatal(err)
	}
	reader := kubernetes.NewForConfigOrDie(throughFile(t, config))
	eventually(t, "the role is in force", func() bool {
		_, err := reader.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	if _, err := reader.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("list pods: %v, want forbidden", err)
	}
}

// throughFile is the same configuration as another process would read it.
func throughFile(t *testing.T, config *rest.Config) *rest.Config {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := lab.WriteKubeconfig(path, "reader", config); err != nil {
		t.Fatal(err)
	}
	read, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func requestsAreCounted(t *testing.T, c *lab.Cluster) {
	config := c.Config()
	config.UserAgent = "counted/1"
	client := kubernetes.NewForConfigOrDie(config)
	since := time.Now()
	for range 3 {
		if _, err := client.AppsV1().Deployments("default").List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	requests, err := c.Requests(since)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, r := range requests {
		if r.UserAgent == "counted/1" {
			got[r.Verb+" "+r.Resource+" in "+r.Namespace+" by "+r.User]++
		}
	}
	want := map[string]int{"list deployments.apps in default by admin": 3, "list nodes in  by admin": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func apiServerReturns(t *testing.T, c *lab.Cluster) {
	client := kubernetes.NewForConfigOrDie(c.Config())
	c.Kill(lab.APIServer)
	if _, err := client.ServerVersion(); err == nil {
		t.Error("a killed API server answers")
	}
	if err := c.Start(t.Context(), lab.APIServer); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func etcdIsRestored(t *testing.T, c *lab.Cluster, client kubernetes.Interface) {
	before := createPod(t, client, "before")
	snapshot, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	after := createPod(t, client, "after")
	if err := c.Restore(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	get(t, client, before.Name)
	if _, err := client.CoreV1().Pods("default").Get(t.Context(),
		after.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("pod made after the snapshot: %v, want not found", err)
	}
	again := createPod(t, client, "again")
	eventually(t, "the restored cluster works", func() bool {
		return get(t, client, again.Name).Status.Phase == corev1.PodRunning
	})
}

func createPod(t *testing.T, client kubernetes.Interface, name string, annotation ...string) *corev1.Pod {
	t.Helper()
	annotations := map[string]string{}
	for i := 0; i < len(annotation); i += 2 {
		annotations[annotation[i]] = annotation[i+1]
	}
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func get(t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// eventually asks until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for !so() {
		if time.Now().After(deadline) {
			t.Fatalf("after three minutes still not: %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

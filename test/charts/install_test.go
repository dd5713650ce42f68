package charts

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/cli"
	"github.com/bourse-dev/bourse/internal/liqo/posture"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// cluster is a real API server with the namespace of Liqo.
type cluster struct {
	*lab.Cluster
	kube.Client
	kubectl string
}

// everyMore are the agent's values that are off by default, and everyMoreOfBroker those of the broker.
const (
	everyMore = "serviceAccount.name=lender,connector.enabled=true,connector.url=https://milan.example:30744," +
		"connector.port=30744,connector.service.type=NodePort,distributedCatalog.enabled=true,join.existingSecret=ticket," +
		"extraEnv[0].name=SSL_CERT_DIR,extraEnv[0].value=/authorities,extraVolumes[0].name=authorities," +
		"extraVolumes[0].configMap.name=authorities,extraVolumeMounts[0].name=authorities,extraVolumeMounts[0].mountPath=/authorities"
	everyMoreOfBroker = "broker.host=b,broker.moreHosts={192.0.2.1},service.type=NodePort,broker.port=30743,broker.interface=both," +
		"broker.catalog=true,certificate.existingSecret=broker-server-tls,certificate.issuer=ca,store.existingSecret=postgres," +
		"extraEnv[0].name=HTTPS_PROXY,extraEnv[0].value=http://proxy:3128"
)

func startCluster(t *testing.T) *cluster {
	t.Helper()
	l := lab.Test(t)
	c := &cluster{}
	var err error
	if c.Cluster, err = l.Cluster(t.Context(), lab.ClusterOptions{Name: "charts"}); err != nil {
		t.Fatal(err)
	}
	if c.Client, err = kube.New(c.Config(), kube.Options{Scheme: scheme.New()}); err != nil {
		t.Fatal(err)
	}
	if c.kubectl, err = lab.Kubectl(t.Context(), os.Stderr); err != nil {
		t.Fatal(err)
	}
	if err := c.Cluster.Apply(t.Context(), []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: liqo}\n")); err != nil {
		t.Fatal(err)
	}
	return c
}

// helm runs helm, which must succeed.
func (c *cluster) helm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, c.Kubeconfig(), args...)
	if err != nil {
		t.Fatalf("helm %q: %s", args, out)
	}
	return out
}

// apply runs kubectl apply -k of folders of config.
func (c *cluster) apply(t *testing.T, folders ...string) {
	t.Helper()
	for _, folder := range folders {
		if out, err := run(t, []string{"KUBECONFIG=" + c.Kubeconfig()}, c.kubectl, "apply", "-k", filepath.Join(configDir, folder)); err != nil {
			t.Fatalf("kubectl apply -k config/%s: %s", folder, out)
		}
	}
}

// as is a client of another account.
func (c *cluster) as(t *testing.T, user string) kube.Client {
	t.Helper()
	config := rest.CopyConfig(c.Config())
	config.Impersonate.UserName = user
	out, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// installed are the objects in the cluster that belong to a release, as "Kind name".
func (c *cluster) installed(t *testing.T) (all []string) {
	t.Helper()
	for _, kind := range []string{"apiextensions.k8s.io/v1/CustomResourceDefinition",
		"admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy", "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicyBinding",
		"rbac.authorization.k8s.io/v1/ClusterRole", "rbac.authorization.k8s.io/v1/ClusterRoleBinding", "rbac.authorization.k8s.io/v1/Role",
		"rbac.authorization.k8s.io/v1/RoleBinding", "v1/ServiceAccount", "v1/Service", "v1/ConfigMap", "apps/v1/Deployment",
		"apps/v1/StatefulSet", "policy/v1/PodDisruptionBudget", "bourse.dev/v1alpha1/SharingPolicy", "bourse.dev/v1alpha1/VirtualNodePool"} {
		at := strings.LastIndexByte(kind, '/')
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(kind[:at])
		list.SetKind(kind[at+1:] + "List")
		if err := c.List(t.Context(), list); meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.GetAnnotations()["meta.helm.sh/release-name"] != "" && o.GetDeletionTimestamp() == nil {
				all = append(all, kind[at+1:]+" "+o.GetName())
			}
		}
	}
	slices.Sort(all)
	return all
}

// reservation makes what a reservation leaves in a cluster while the agent is gone.
func (c *cluster) reservation(t *testing.T, namespace string) {
	t.Helper()
	agent := c.as(t, "system:serviceaccount:"+namespace+":bourse-agent")
	for _, o := range []kube.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}},
		&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "running", Finalizers: []string{api.VolumesFinalizer}},
			Spec: api.ResourceRequestSpec{Request: api.Request{Resources: api.Resources{"cpu": resource.MustParse("4")}}}},
		&api.Ledger{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bourse-identity"}, Data: map[string][]byte{"cluster.key": []byte("key")}},
	} {
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bourse-consumers"}, Data: map[string]string{"rome": "brokered"}}
	eventually(t, "the agent makes the list of consumers", func(ctx context.Context) error {
		return agent.Create(ctx, list.DeepCopy())
	})
	eventually(t, "the list is guarded", func(ctx context.Context) error {
		err := c.Delete(ctx, list.DeepCopy(), kube.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "bourse-guard") {
			return fmt.Errorf("an admin may delete it: %v", err)
		}
		return nil
	})
}

// state has the UIDs and versions of these.
func (c *cluster) state(t *testing.T, namespace string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range []kube.Object{
		&api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: "running"}},
		&api.Ledger{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ledger"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bourse-identity"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "bourse-consumers"}},
	} {
		if err := c.Get(t.Context(), kube.ObjectKeyFromObject(o), o); err != nil {
			t.Fatalf("%T: %v", o, err)
		}
		out[fmt.Sprintf("%T %s", o, o.GetName())] = string(o.GetUID()) + " " + o.GetResourceVersion()
	}
	return out
}

// uids are those of what runs, by name.
func (c *cluster) uids(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, o := range []kube.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-agent"}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse-broker", Name: "broker"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse-broker", Name: "broker"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: "bourse-agent"}},
	} {
		if err := c.Get(t.Context(), kube.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		out[fmt.Sprintf("%T", o)] = string(o.GetUID())
	}
	return out
}

// stands demands that an agent takes the policies for its own, and that one of another namespace or account does not.
func (c *cluster) stands(t *testing.T, namespace, account string) {
	t.Helper()
	if err := (&posture.Policies{Known: c, Namespace: namespace, Account: account}).Stand(t.Context()); err != nil {
		t.Errorf("agent %s in %s: %v", account, namespace, err)
	}
	for _, other := range []*posture.Policies{{Known: c, Namespace: "elsewhere", Account: account}, {Known: c, Namespace: namespace, Account: "other"}} {
		err := other.Stand(t.Context())
		if err == nil || !strings.Contains(err.Error(), "for an agent in namespace "+namespace+" with ServiceAccount "+account) {
			t.Errorf("agent %s in %s: %v", other.Account, other.Namespace, err)
		}
	}
}

// servesKinds demands that an agent finds its kinds with all their fields.
func (c *cluster) servesKinds(t *testing.T) {
	t.Helper()
	known, err := discovery.NewDiscoveryClientForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	if older, err := (doctor.Kinds{OpenAPI: known.OpenAPIV3()}).Find(t.Context()); err != nil || len(older) > 0 {
		t.Errorf("the agent finds older kinds: %v, %v", older, err)
	}
}

// admitted demands that a namespace which enforces Pod Security's level restricted admits the pods of a workload.
func (c *cluster) admitted(t *testing.T, namespace string, template corev1.PodTemplateSpec, claims ...corev1.PersistentVolumeClaim) {
	t.Helper()
	label := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if err := c.Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		kube.RawPatch(types.MergePatchType, label)); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "admitted"}, Spec: template.Spec}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name + "-broker-0"}}})
	}
	eventually(t, "a pod in namespace "+namespace+" is admitted", func(ctx context.Context) error {
		return c.Create(ctx, pod.DeepCopy(), kube.DryRunAll)
	})
	for _, container := range pod.Spec.Containers {
		if said := new(strings.Builder); cli.Main(append(slices.Clone(container.Args), "--help"), io.Discard, said) != 0 {
			t.Errorf("the program does not know an argument of %q: %s", container.Args, said)
		}
	}
}

// runs demands that the pods of both charts are admitted in their namespaces.
func (c *cluster) runs(t *testing.T, agent, broker string) {
	t.Helper()
	var d appsv1.Deployment
	var s appsv1.StatefulSet
	if err := c.Get(t.Context(), kube.ObjectKey{Namespace: agent, Name: "bourse-agent"}, &d); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), kube.ObjectKey{Namespace: broker, Name: "broker"}, &s); err != nil {
		t.Fatal(err)
	}
	c.admitted(t, agent, d.Spec.Template)
	c.admitted(t, broker, s.Spec.Template, s.Spec.VolumeClaimTemplates...)
}

// keptRow is a line of the table in docs/uninstall.md: a kind, and names or patterns of them.
var keptRow = regexp.MustCompile("(?m)^\\| ([A-Z][A-Za-z]+) \\| (`[^|]+`) \\|")

// isWhatStays compares objects with the table of docs/uninstall.md.
func isWhatStays(t *testing.T, objects []string) {
	t.Helper()
	rows := map[string]bool{} // "Kind pattern", and whether something has that name
	for _, row := range keptRow.FindAllStringSubmatch(string(read(t, "../../docs/uninstall.md")), -1) {
		for name := range strings.SplitSeq(row[2], ", ") {
			rows[row[1]+" "+strings.Trim(name, "`")] = false
		}
	}
	if len(rows) == 0 {
		t.Fatal("docs/uninstall.md has no table of what stays")
	}
	for _, o := range objects {
		found := false
		for row := range rows {
			if ok, _ := path.Match(row, o); ok {
				rows[row], found = true, true
			}
		}
		if !found {
			t.Errorf("%s stays, and docs/uninstall.md does not say so", o)
		}
	}
	for row, stays := range rows {
		if !stays {
			t.Errorf("docs/uninstall.md says that %s stays, and none does", row)
		}
	}
}

// What an agent makes by its rights, and nobody deletes, is in docs/uninstall.md. Objects of Bourse's kinds are there
// as such.
func TestUninstallPageHasWhatTheAgentMakes(t *testing.T) {
	page, kinds := string(read(t, "../../docs/uninstall.md")), map[string]string{"secrets": "Secret", "leases": "Lease",
		"events": "Events", "configmaps": "ConfigMap"}
	checked := 0
	for _, o := range decoded(t, string(read(t, filepath.Join(chartsDir, "rendered/agent-rights.yaml")))) {
		var role rbacv1.ClusterRole // a Role has rules, too
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			if o.GetName() != "bourse-agent" || !slices.Contains(rule.Verbs, "create") || slices.Contains(rule.APIGroups, "bourse.dev") {
				continue
			}
			for _, resource := range rule.Resources {
				checked++
				if kind := kinds[resource]; kind == "" || !strings.Contains(page, kind+" `") && !strings.Contains(page, kind+";") {
					t.Errorf("the agent may make %s, and docs/uninstall.md does not say that they stay", resource)
				}
			}
		}
	}
	if checked < 4 {
		t.Errorf("only %d were found", checked)
	}
}

// A member of today's manifests becomes one of the charts, with everything in its place. A forced upgrade runs, a
// release ends and comes back, and what was agreed stays. Then the same by other names, in another namespace.
func TestMembersInstall(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	flags := func(namespace string, more ...string) []string {
		return append([]string{chartOf("bourse-agent"), "-n", namespace, "--create-namespace", image, "--set=clusterID=milan",
			"-f", filepath.Join(chartsDir, "bourse-agent/values-hub.yaml")}, more...)
	}
	c.refusesBeforeBase(t, flags("too-early"))

	c.apply(t, "agent", "liqo", "broker")
	c.reservation(t, "bourse")
	had, was := c.state(t, "bourse"), c.uids(t)
	base := []string{"bourse-base", chartOf("bourse-base")}
	broker := []string{"bourse-broker", chartOf("bourse-broker"), "-n", "bourse-broker", image, "--set=broker.host=b"}
	agent := append([]string{"bourse-agent"}, flags("bourse")...)
	for _, chart := range [][]string{base, agent, broker} {
		c.helm(t, append(installing("--take-ownership"), chart...)...)
	}
	if diff := cmp.Diff(was, c.uids(t)); diff != "" {
		t.Errorf("before the charts -, after +\n%s", diff)
	}
	c.runs(t, "bourse", "bourse-broker")
	c.stands(t, "bourse", account)
	c.servesKinds(t)

	for _, chart := range [][]string{base, agent, broker} {
		c.helm(t, append([]string{"upgrade", "--force"}, chart...)...)
	}
	all := c.installed(t)
	c.helm(t, "uninstall", "bourse-agent", "-n", "bourse")
	c.helm(t, "uninstall", "bourse-broker", "-n", "bourse-broker")
	c.helm(t, "uninstall", "bourse-base")
	isWhatStays(t, c.installed(t))
	for _, chart := range [][]string{base, agent, broker} {
		c.helm(t, append(installing(), chart...)...)
	}
	if diff := cmp.Diff(all, c.installed(t)); diff != "" {
		t.Errorf("before -, installed again +\n%s", diff)
	}
	c.stands(t, "bourse", account)
	if diff := cmp.Diff(had, c.state(t, "bourse")); diff != "" {
		t.Errorf("what a reservation leaves: before -, after +\n%s", diff)
	}

	// Elsewhere. The list of consumers and its namespace stay guarded until the policies name the new namespace.
	c.helm(t, "uninstall", "bourse-agent", "-n", "bourse")
	c.helm(t, "uninstall", "bourse-broker", "-n", "bourse-broker")
	c.helm(t, append([]string{"upgrade", "--set=agent.namespace=platform-x,agent.serviceAccount=lender"}, base...)...)
	c.helm(t, append(installing("--take-ownership", "lender"), flags("platform-x", "--set="+everyMore)...)...)
	definitions, err := lab.CertManagerDefinitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cluster.Apply(t.Context(), definitions...); err != nil {
		t.Fatal(err)
	}
	c.helm(t, "install", "hall", chartOf("bourse-broker"), "-n", "meeting-place", "--create-namespace", image, "--set="+everyMoreOfBroker)
	c.stands(t, "platform-x", "lender")
	c.runs(t, "platform-x", "meeting-place")
	lender := c.as(t, "system:serviceaccount:platform-x:lender")
	eventually(t, "the agent may read its token", func(ctx context.Context) error {
		return kube.IgnoreNotFound(lender.Get(ctx, kube.ObjectKey{Namespace: "platform-x", Name: "ticket"}, &corev1.Secret{}))
	})
	if err := lender.Get(t.Context(), kube.ObjectKey{Namespace: "platform-x", Name: "bourse-join"}, &corev1.Secret{}); !apierrors.IsForbidden(err) {
		t.Errorf("the usual Secret, which it does not need: %v", err)
	}
	c.helm(t, "uninstall", "hall", "-n", "meeting-place")
	for _, kind := range []string{"clusteradvertisements", "reservations"} { // they stay; docs/uninstall.md has the command
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: kind + ".broker.fluidos.eu"}}
		o.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
		if err := c.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	c.leaves(t)
}

// leaves has the agent's cluster leave by bourse uninstall, which waits for Helm. With --purge nothing is left.
func (c *cluster) leaves(t *testing.T) {
	t.Helper()
	var said []string
	uninstall := func(purge bool) error {
		said = nil
		return install.Uninstall(t.Context(), c.Config(), install.Removal{Namespace: "platform-x", LiqoNamespace: "liqo",
			Purge: purge, Tell: func(step string) { said = append(said, step) }})
	}
	refused := func(purge bool, fix string) {
		t.Helper()
		if err := uninstall(purge); api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), fix) || len(said) > 0 {
			t.Errorf("want %q: %v, %q", fix, err, said)
		}
	}
	refused(false, "helm uninstall lender -n platform-x")
	left := &api.Peering{ObjectMeta: metav1.ObjectMeta{Namespace: "platform-x", Name: "rome.consumer"},
		Spec: api.PeeringSpec{Cluster: "rome", Role: api.RoleConsumer}}
	agent := c.as(t, "system:serviceaccount:platform-x:lender")
	list := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "platform-x", Name: "bourse-consumers"}}
	if err := agent.Create(t.Context(), list); err != nil { // without it the policies refuse Peerings, too
		t.Fatal(err)
	}
	eventually(t, "a peering", func(ctx context.Context) error { return c.Create(ctx, left.DeepCopy()) })
	c.helm(t, "uninstall", "lender", "-n", "platform-x")
	refused(false, "install it again first, since only an agent closes peerings")
	if err := c.Delete(t.Context(), left); err != nil { // as the agent does once its reservations ended
		t.Fatal(err)
	}
	if err := uninstall(false); err != nil || len(said) == 0 || !strings.Contains(said[len(said)-1], "add --purge") {
		t.Errorf("without the agent: %v, %q", err, said)
	}
	isWhatStays(t, c.installed(t))
	var running api.ResourceRequest
	if err := c.Get(t.Context(), kube.ObjectKey{Namespace: "team-a", Name: "running"}, &running); err != nil || len(running.Finalizers) > 0 {
		t.Errorf("a request has finalizers %q, which nobody removes: %v", running.Finalizers, err)
	}
	team := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "team-a"}}
	if err := c.Delete(t.Context(), team); err != nil {
		t.Fatal(err)
	}
	federation.Eventually(t, time.Minute, "a user's namespace goes", func(ctx context.Context) error {
		if err := c.Get(ctx, kube.ObjectKeyFromObject(team), &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace team-a is still there: %w", err)
		}
		return nil
	})
	refused(true, "helm uninstall bourse-base -n default")
	c.helm(t, "uninstall", "bourse-base")
	if err := uninstall(true); err != nil {
		t.Error(err)
	}
	eventually(t, "nothing is left", func(ctx context.Context) error {
		if left := c.installed(t); len(left) > 0 {
			return fmt.Errorf("%q", left)
		}
		if err := c.Get(ctx, kube.ObjectKey{Name: "platform-x"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace platform-x: %v", err)
		}
		return nil
	})
}

// refusesBeforeBase demands that Helm installs nothing of the agent before the kinds are there, and says so.
func (c *cluster) refusesBeforeBase(t *testing.T, flags []string) {
	t.Helper()
	out, err := helm(t, c.Kubeconfig(), append([]string{"install", "bourse-agent"}, flags...)...)
	if err == nil || !strings.Contains(out, `no matches for kind "SharingPolicy" in version "bourse.dev/v1alpha1"`) ||
		!strings.Contains(out, "ensure CRDs are installed first") {
		t.Errorf("before the base: %v, %s", err, out)
	}
	if left := c.installed(t); len(left) > 0 {
		t.Errorf("it left %q", left)
	}
}

// eventually asks until there is no error any more.
func eventually(t *testing.T, what string, ask func(ctx context.Context) error) {
	t.Helper()
	federation.Eventually(t, 2*time.Minute, what, ask)
}

package liqo

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo/grant"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// as is the provider's API as the consumer's Liqo reaches it, by an identity that Liqo keeps in a
// Secret: what a hostile consumer has in its hands.
func (w *world) as(t *testing.T, consumer, provider *federation.Member, secret string) kube.Client {
	t.Helper()
	var s corev1.Secret
	eventually(t, "Liqo has written Secret "+secret, func(ctx context.Context) error {
		return consumer.Objects.Get(ctx, kube.ObjectKey{Namespace: "liqo-tenant-" + provider.Name, Name: secret}, &s)
	})
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // nothing of its own holds it back
	c, err := kube.New(config, kube.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A consumer that Liqo lets do more than it reserved is refused by the provider's policies, each
// with its message.
func TestAHostileConsumer(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "hostile", amounts("2", "2Gi"))
	a.becomes(api.Active)
	name := market.SliceName("rome", "milan", api.GeneralPool)
	control := w.as(t, w.rome, w.milan, "kubeconfig-controlplane-milan")
	kubelet := w.as(t, w.rome, w.milan, "kubeconfig-resourceslice-"+name)
	eventually(t, "rome may make pods at milan", func(ctx context.Context) error { // Active does not say so
		return kubelet.List(ctx, &offv1beta1.ShadowPodList{}, kube.InNamespace("hostile-rome"))
	})
	at := kube.ObjectKey{Namespace: "liqo-tenant-rome", Name: name}
	slice := func() *authv1beta1.ResourceSlice {
		var s authv1beta1.ResourceSlice
		if err := control.Get(t.Context(), at, &s); err != nil {
			t.Fatal(err)
		}
		return &s
	}
	pod := func(change func(*corev1.PodSpec)) func() error {
		return func() error {
			spec := corev1.PodSpec{Containers: []corev1.Container{{
				Name: "c", Image: "localhost/c", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList(amounts("100m", "64Mi"))},
			}}}
			change(&spec)
			return kubelet.Create(t.Context(), &offv1beta1.ShadowPod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "hostile-rome", Name: "bad",
					Labels: map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"}},
				Spec: offv1beta1.ShadowPodSpec{Pod: spec},
			})
		}
	}
	first := func(change func(*corev1.Container)) func() error {
		return pod(func(s *corev1.PodSpec) { change(&s.Containers[0]) })
	}
	yes := true
	for _, attempt := range []struct {
		name, says string
		do         func() error
	}{
		{"grants itself more", "the provider's to say", func() error {
			s := slice()
			before := s.DeepCopy()
			s.Status.Resources[corev1.ResourceCPU] = resource.MustParse("1000")
			return control.Status().Patch(t.Context(), s, kube.MergeFrom(before))
		}},
		{"takes the class that grants everything", "of class bourse", func() error {
			s := slice()
			before := s.DeepCopy()
			s.Spec.Class = authv1beta1.ResourceSliceClassDefault
			return control.Patch(t.Context(), s, kube.MergeFrom(before))
		}},
		{"makes another slice, of no class", "of class bourse", func() error {
			s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace,
				Name: "more", Labels: slice().Labels}, Spec: slice().Spec}
			s.Spec.Class = ""
			return control.Create(t.Context(), s)
		}},
		{"makes another slice, of another name", "one ResourceSlice", func() error {
			s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace,
				Name: "a", Labels: slice().Labels}, Spec: slice().Spec}
			return control.Create(t.Context(), s)
		}},
		{"has a group more certified", "nobody else", func() error {
			s := slice()
			before := s.DeepCopy()
			s.Spec.CSR = w.request(t, w.rome, grant.User(name, "rome"), "rome", "x") // the shortest there can be
			return control.Patch(t.Context(), s, kube.MergeFrom(before))
		}},
		{"hides a group more behind a shorter block", "nobody else", func() error {
			s := slice()
			before := s.DeepCopy()
			s.Spec.CSR = bytes.ReplaceAll(w.request(t, w.rome, grant.User(name, "rome"), "rome", "x"),
				[]byte("CERTIFICATE REQUEST"), []byte("X"))
			return control.Patch(t.Context(), s, kube.MergeFrom(before))
		}},
		{"keeps its quota when its slice goes", "in the background", func() error {
			return control.Delete(t.Context(), slice(), kube.PropagationPolicy(metav1.DeletePropagationOrphan))
		}},
		{"speaks for another cluster", "for itself", func() error {
			s := slice()
			before := s.DeepCopy()
			paris := liqov1beta1.ClusterID("paris")
			s.Spec.ConsumerClusterID = &paris
			return control.Patch(t.Context(), s, kube.MergeFrom(before))
		}},
		{"maps a namespace as another cluster's", "liqo.io/originID", func() error {
			m := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace,
				Name: "milan", Labels: slice().Labels}}
			m.Labels["liqo.io/originID"] = "liqo.io"
			m.Spec.DesiredMapping = map[string]string{"x": "x-rome"}
			return control.Create(t.Context(), m)
		}},
		{"draws an address to its pods", "externalIPs", func() error {
			return kubelet.Create(t.Context(),
				&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile-rome", Name: "draws"},
					Spec: corev1.ServiceSpec{ExternalIPs: []string{"10.0.0.1"}, Ports: []corev1.ServicePort{{Port: 443}}}})
		}},
		{"takes a volume of another's", "may not name its volume", func() error {
			return kubelet.Create(t.Context(),
				&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile-rome", Name: "takes"},
					Spec: corev1.PersistentVolumeClaimSpec{
						VolumeName: "somebodys", AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
						Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
					}})
		}},
		{"squats a namespace", "NAMESPACE-CONSUMER", func() error {
			m := &offv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: at.Namespace,
				Name: "milan", Labels: slice().Labels}}
			m.Spec.DesiredMapping = map[string]string{"x": "kube-backdoor"}
			return control.Create(t.Context(), m)
		}},
		{"mounts the node's root", "hostPath", pod(func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{{Name: "root",
				VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		})},
		{"uses the node's network", "hostNetwork", pod(func(s *corev1.PodSpec) { s.HostNetwork = true })},
		{"chooses its node", "choose its node", pod(func(s *corev1.PodSpec) { s.NodeName = "milan-1" })},
		{"is more important than all others", "priority class",
			pod(func(s *corev1.PodSpec) { s.PriorityClassName = "system-node-critical" })},
		{"runs as another's ServiceAccount", "ServiceAccount",
			pod(func(s *corev1.PodSpec) { s.ServiceAccountName = "admin" })},
		{"tolerates a cordon", "tolerate", pod(func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "node.kubernetes.io/unschedulable", Operator: corev1.TolerationOpExists}}
		})},
		{"is privileged", "privileged",
			first(func(c *corev1.Container) { c.SecurityContext = &corev1.SecurityContext{Privileged: &yes} })},
		{"has the rights of a node", "capabilities", first(func(c *corev1.Container) {
			c.SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}
		})},
		{"takes a port of the node", "hostPort",
			first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80}} })},
		{"requests nothing", "must request cpu and memory", first(func(c *corev1.Container) { c.Resources.Requests = nil })},
		{"requests nothing, in words", "less would not be counted",
			first(func(c *corev1.Container) { c.Resources.Requests = corev1.ResourceList(amounts("0", "64Mi")) })},
		{"has a limit of what it does not request", "Liqo counts requests", first(func(c *corev1.Container) {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
		})},
		{"has a sidecar that Liqo does not count", "Liqo does not count them", pod(func(s *corev1.PodSpec) {
			always := corev1.ContainerRestartPolicyAlways
			s.InitContainers = []corev1.Container{*s.Containers[0].DeepCopy()}
			s.InitContainers[0].Name, s.InitContainers[0].RestartPolicy = "side", &always
		})},
		{"runs as another's ServiceAccount, by its old name", "ServiceAccount",
			pod(func(s *corev1.PodSpec) { s.DeprecatedServiceAccount = "admin" })},
		{"takes more than it reserved", "",
			first(func(c *corev1.Container) { c.Resources.Requests = corev1.ResourceList(amounts("3", "64Mi")) })},
	} {
		t.Run(attempt.name, func(t *testing.T) {
			if err := attempt.do(); err == nil || !strings.Contains(err.Error(), attempt.says) {
				t.Errorf("it %s: %v, want %q", attempt.name, err, attempt.says)
			}
		})
	}
	t.Run("limits that the policy asks for", func(t *testing.T) {
		w.withPolicy(t, w.milan, func(s *api.Sharing) { s.Namespaces = &api.NamespacePolicy{RequireLimits: true} })
		eventually(t, "a pod without limits is refused", func(context.Context) error {
			err := pod(func(*corev1.PodSpec) {})()
			// let in before the policy was
			_ = kubelet.Delete(t.Context(),
				&offv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: "hostile-rome", Name: "bad"}})
			if err == nil || !strings.Contains(err.Error(), "asks for limits") {
				return fmt.Errorf("%w", err)
			}
			return nil
		})
	})
	w.guarded(t, w.milan, "hostile-rome")
	w.confined(t, w.milan)
	w.granted(t, w.rome, w.milan, "2")
	a.run(2, "100m", "64Mi") // and what is allowed goes on
	a.running(w.milan, 2)
	var maps offv1beta1.NamespaceMapList // whose copy is not kept by what its owner writes on it
	if err := control.List(t.Context(), &maps, kube.InNamespace(at.Namespace)); err != nil || len(maps.Items) != 1 {
		t.Fatalf("%d NamespaceMaps, %v", len(maps.Items), err)
	}
	if err := control.Patch(t.Context(), &maps.Items[0], kube.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"bourse.dev/keep":"true"}}}`))); err != nil {
		t.Fatal(err)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// request is a certificate request by the key of a cluster's Liqo.
func (w *world) request(t *testing.T, of *federation.Member, name string, groups ...string) []byte {
	t.Helper()
	var keys corev1.Secret
	if err := of.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo", Name: "authentication-keys"},
		&keys); err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(keys.Data["privateKey"])
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: groups}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// "Choose the provider's reservation posture": without its policies a provider peers with nobody,
// and says so and how to fix it.
func TestGapChooseThePosture(t *testing.T) {
	w := start(t)
	for _, name := range []string{"bourse-pods", "bourse-slice-class"} {
		t.Run(name, func(t *testing.T) {
			w.withoutPolicy(t, name)
		})
	}
}

func (w *world) withoutPolicy(t *testing.T, name string) {
	var binding admissionv1.ValidatingAdmissionPolicyBinding
	if err := w.paris.Objects.Get(t.Context(), kube.ObjectKey{Name: name}, &binding); err != nil {
		t.Fatal(err)
	}
	if err := w.paris.Objects.Delete(t.Context(), &binding); err != nil {
		t.Fatal(err)
	}
	w.finds(t, w.paris, health.PoliciesMissing, "") // the agent's cache knows
	a := w.ask(t, w.rome, w.paris, "without-"+name, amounts("1", "1Gi"))
	w.says(t, w.paris, "rome.consumer", name)
	again := admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: binding.Name},
		Spec: binding.Spec}
	if err := w.paris.Objects.Create(t.Context(), &again); err != nil {
		t.Fatal(err)
	}
	a.becomes(api.Active)
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// says waits until a peering that does not open says why.
func (w *world) says(t *testing.T, at *federation.Member, peering, why string) {
	t.Helper()
	var p api.Peering
	eventually(t, at.Name+" says why it does not peer", func(ctx context.Context) error {
		err := at.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: peering}, &p)
		if err == nil && !strings.Contains(p.Status.Message, why) {
			err = fmt.Errorf("it says %q", p.Status.Message)
		}
		return err
	})
	if p.Status.State != api.PeeringOpening {
		t.Errorf("the peering is %s", p.Status.State)
	}
}

// In Liqo a cluster ID becomes a user and a group: one that has rights already is refused.
func TestAConsumerNamedLikeAUser(t *testing.T) {
	w := start(t)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rome-is-an-admin"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "rome"}},
	}
	if err := w.paris.Objects.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	a := w.ask(t, w.rome, w.paris, "collides", amounts("1", "1Gi"))
	w.says(t, w.paris, "rome.consumer", "ClusterIDCollides")
	w.finds(t, w.paris, health.ClusterIDCollides, "cluster rome")
	if err := w.paris.Objects.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	a.becomes(api.Active)
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}

// A namespace that nobody named is not taken in by a new virtual node: its Secrets would go to the provider.
func TestNoNamespaceIsCaptured(t *testing.T) {
	w := start(t)
	makeNamespace(t, w.rome, "bystander")
	everywhere := &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "bystander",
		Name: "offloading"}, Spec: offv1beta1.NamespaceOffloadingSpec{
		NamespaceMappingStrategy: offv1beta1.DefaultNameMappingStrategyType, PodOffloadingStrategy: offv1beta1.LocalAndRemotePodOffloadingStrategyType,
		ClusterSelector: everyVirtualNode,
	}}
	if err := w.rome.Objects.Create(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	}
	a := w.ask(t, w.rome, w.paris, "captures", amounts("1", "1Gi"))
	eventually(t, "rome says whom it would take in", func(ctx context.Context) error {
		var p api.Peering
		err := w.rome.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "paris.provider"}, &p)
		if err == nil && (!strings.Contains(p.Status.Message, "WouldOffloadOthers") ||
			!strings.Contains(p.Status.Message, "bystander")) {
			err = fmt.Errorf("it says %q", p.Status.Message)
		}
		return err
	})
	w.finds(t, w.rome, health.WouldOffloadOthers, "namespace bystander")
	before, err := doctor.Preflight(t.Context(), w.rome.Cluster.Config(), lab.LiqoNamespace)
	if err != nil || !slices.ContainsFunc(before.Problems, is(health.WouldOffloadOthers, "namespace bystander")) {
		t.Errorf("preflight finds %+v, %v", before.Problems, err)
	}
	var slice authv1beta1.ResourceSlice
	name := market.SliceName("rome", "paris", api.GeneralPool)
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Namespace: "liqo-tenant-paris", Name: name},
		&slice); !apierrors.IsNotFound(err) {
		t.Errorf("the slice was made: %v", err)
	}
	if err := w.rome.Objects.Delete(t.Context(), everywhere); err != nil {
		t.Fatal(err)
	}
	a.becomes(api.Active)
	a.release()
	w.nothingLeft(t, w.rome, w.paris)
}

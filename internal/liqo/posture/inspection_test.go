package posture

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi/openapitest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// cluster is one that lends and lacks nothing, as objects by names of this test's own.
func cluster(t *testing.T) map[string]client.Object {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app.kubernetes.io/version": "v1.2.0"}
	all := map[string]client.Object{
		"liqo": &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
			Name: "liqo-controller-manager", Labels: labels}, Spec: appsv1.DeploymentSpec{
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Image: "localhost/liqo-controller-manager", Args: []string{"--default-limits-enforcement=Hard",
					"--api-server-address-override=https://rome.example:6443"},
			}}}},
		}},
		"key":  keys(t, key),
		"list": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bourse", Name: consumers}},
	}
	ours, err := wanted()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range ours.policies {
		all["policy "+p.Name] = p.DeepCopy()
	}
	for _, b := range ours.bindings {
		all["binding "+b.Name] = b.DeepCopy()
	}
	return all
}

func keys(t *testing.T, key any) *corev1.Secret {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: consts.AuthKeysSecretName},
		Data: map[string][]byte{
			consts.PrivateKeyField: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		}}
}

// What is wrong with a cluster is found, and nothing else.
func TestInspection(t *testing.T) {
	flag := func(all map[string]client.Object, old, with string) {
		d := all["liqo"].(*appsv1.Deployment)
		for i, a := range d.Spec.Template.Spec.Containers[0].Args {
			d.Spec.Template.Spec.Containers[0].Args[i] = strings.Replace(a, old, with, 1)
		}
	}
	version := func(v string) func(*Inspection, map[string]client.Object) {
		return func(_ *Inspection, all map[string]client.Object) {
			all["liqo"].GetLabels()["app.kubernetes.io/version"] = v
		}
	}
	named := func(letters int) func(*Inspection, map[string]client.Object) {
		return func(_ *Inspection, all map[string]client.Object) {
			all["id"] = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: liqo.ClusterIDConfig},
				Data: map[string]string{"CLUSTER_ID": strings.Repeat("r", letters)}}
		}
	}
	offloaded := func(all map[string]client.Object, by map[string]string) {
		all["offloading"] = &offv1beta1.NamespaceOffloading{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
			Name: "offloading", Labels: by}}
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	identity := func(all map[string]client.Object, of authv1beta1.IdentityType, by map[string]string) {
		all["identity "+string(of)] = &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan",
			Name: strings.ToLower(string(of)), Labels: by},
			Spec: authv1beta1.IdentitySpec{ClusterID: "milan", Type: of}}
	}
	for name, c := range map[string]struct {
		change func(*Inspection, map[string]client.Object)
		want   string // besides DefaultClassOpen, which every lender is told
	}{
		"nothing": {func(*Inspection, map[string]client.Object) {}, ""},
		"who only borrows": {func(i *Inspection,
			all map[string]client.Object) {
			i.Lends = false
			maps.DeleteFunc(all, isPolicy)
		}, "-DefaultClassOpen"},
		"a version nobody tested": {version("v1.3.1"), "LiqoUntested"},
		"one that lacks a capability": {func(i *Inspection, all map[string]client.Object) {
			i.Served = (&liqo.Probe{OpenAPI: openapitest.NewFakeClient()}).Served
			version("v1.3.1")(i, all)
		}, "LiqoIncompatible"},
		"one whose CRDs cannot be read": {func(i *Inspection, all map[string]client.Object) {
			i.Served = (&liqo.Probe{OpenAPI: openapitest.FakeClient{ForcedErr: errors.New("no answer")}}).Served
			version("v1.3.1")(i, all)
		}, "NotChecked"},
		"a version that closed its own class": {func(i *Inspection, all map[string]client.Object) {
			version("v1.3.0")(i, all)
			flag(all, "--default-limits-enforcement=Hard", "--default-resource-slice-class-enabled=false")
		}, "-DefaultClassOpen LiqoUntested LimitsNotEnforced"},
		"an older version": {version("v1.1.2"), "LiqoIncompatible"},
		"no module": {func(_ *Inspection, all map[string]client.Object) {
			flag(all, "--default-limits-enforcement=Hard", "--offloading-enabled=false")
		}, "LiqoModuleOff LimitsNotEnforced"},
		"no version": {version("latest"), "LiqoUnknown"},
		"an ID that leaves no room for a namespace": {named(62), "ClusterIDTooLong"},
		"the longest ID": {named(61), ""},
		"no limits": {func(_ *Inspection, all map[string]client.Object) { flag(all, "=Hard", "=None") },
			"LimitsNotEnforced"},
		"no address": {func(_ *Inspection, all map[string]client.Object) { flag(all, "https://rome.example:6443", "") },
			"ApiServerUnknown"},
		"a local address of IPv6": {func(_ *Inspection, all map[string]client.Object) { flag(all, "rome.example", "[::1]") },
			"ApiServerLocal"},
		"the address that Liqo makes of one of IPv6": {func(_ *Inspection, all map[string]client.Object) {
			flag(all, "https://rome.example:6443", "")
			all["node"] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node",
				Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}, Status: corev1.NodeStatus{
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "fd00::1"}}}}
		}, "ApiServerUnknown"},
		"a local address": {func(_ *Inspection, all map[string]client.Object) { flag(all, "rome.example", "127.0.0.1") },
			"ApiServerLocal"},
		"a silent address": {func(i *Inspection, _ map[string]client.Object) {
			i.Dial = func(context.Context, string) error { return errors.New("no route") }
		}, "ApiServerUnreachable"},
		"another key": {func(_ *Inspection, all map[string]client.Object) { all["key"] = keys(t, curve) }, "LiqoKeyUnusable"},
		"no policy": {func(_ *Inspection, all map[string]client.Object) { delete(all, "policy bourse-pods") },
			"PoliciesMissing"},
		"a webhook that reads all amounts": {func(_ *Inspection, all map[string]client.Object) {
			m, _ := webhooks(t)
			m.Webhooks[1].MatchConditions = nil
			all["webhook"] = m
		}, "AmountsUnchecked"},
		"no list of consumers": {func(_ *Inspection, all map[string]client.Object) { delete(all, "list") }, "ConsumersMissing"},
		"no list where nothing is lent": {func(i *Inspection, all map[string]client.Object) {
			i.Lends = false
			delete(all, "list")
		}, "-DefaultClassOpen"},
		"no binding": {func(_ *Inspection, all map[string]client.Object) { delete(all, "binding bourse-pods") },
			"PoliciesMissing"},
		"a policy that was changed": {func(_ *Inspection, all map[string]client.Object) {
			all["policy bourse-pods"].(*admissionv1.ValidatingAdmissionPolicy).Spec.Validations = nil
		}, "PoliciesMissing"},
		"policies that do not deny": {func(i *Inspection, _ map[string]client.Object) { i.Prove = true }, "PoliciesMissing"},
		"a namespace that is open": {func(_ *Inspection, all map[string]client.Object) { offloaded(all, nil) },
			"WouldOffloadOthers"},
		"one that consents": {func(_ *Inspection, all map[string]client.Object) {
			offloaded(all, nil)
			all["shop"] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop",
				Labels: map[string]string{api.OffloadToAnyLabel: "true"}}}
		}, ""},
		"one of ours": {func(_ *Inspection,
			all map[string]client.Object) {
			offloaded(all, liqo.Managed())
		}, ""},
		"pods that wait": {func(_ *Inspection, all map[string]client.Object) {
			offloaded(all, liqo.Managed())
			seconds := int64(300)
			all["pod"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
				Name: "p", Labels: map[string]string{consts.LocalPodLabelKey: consts.LocalPodLabelValue}},
				Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady,
					TolerationSeconds: &seconds}}}}
		}, "TolerationSeconds"},
		"a Service with the name of a pod": {func(_ *Inspection, all map[string]client.Object) {
			offloaded(all, liqo.Managed())
			all["pod"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
			all["service"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
			all["other"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
		}, "ServiceNamedLikeAPod"},
		"one for a pod that does not exist yet": {func(_ *Inspection, all map[string]client.Object) {
			offloaded(all, liqo.Managed())
			all["service"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"},
				Spec: corev1.ServiceSpec{Selector: map[string]string{"statefulset.kubernetes.io/pod-name": "web-0"}}}
		}, "ServiceNamedLikeAPod"},
		"one in a namespace that stays": {func(_ *Inspection, all map[string]client.Object) {
			all["pod"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
			all["service"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
		}, ""},
		"one without Liqo's networking": {func(_ *Inspection, all map[string]client.Object) {
			offloaded(all, liqo.Managed())
			all["pod"] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
			all["service"] = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
			d := all["liqo"].(*appsv1.Deployment)
			d.Spec.Template.Spec.Containers[0].Args = append(d.Spec.Template.Spec.Containers[0].Args,
				"--networking-enabled=false")
		}, ""},
		"a peering by hand beside ours": {func(_ *Inspection, all map[string]client.Object) {
			identity(all, authv1beta1.ControlPlaneIdentityType, liqo.Managed())
			all["tenant"] = &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"},
				Spec: authv1beta1.TenantSpec{ClusterID: "milan"}}
		}, "MixedPeering"},
		"what Liqo makes of our slices": {func(_ *Inspection, all map[string]client.Object) {
			identity(all, authv1beta1.ControlPlaneIdentityType, liqo.Managed())
			identity(all, authv1beta1.ResourceSliceIdentityType, nil)
		}, ""},
		"a Secret on which Liqo acts": {func(i *Inspection, all map[string]client.Object) {
			secretOfMilan(all, map[string]string{"liqo.io/identity-type": "ControlPlane", "offloading.liqo.io/origin": "milan"})
			i.Before = true
		}, "SecretOfLiqo"},
		"one that Liqo reflects": {func(i *Inspection, all map[string]client.Object) {
			secretOfMilan(all, map[string]string{"offloading.liqo.io/origin": "milan", "app": "web"})
			i.Before = true
		}, ""},
		"one in a tenant's namespace": {func(i *Inspection, all map[string]client.Object) {
			secretOfMilan(all, map[string]string{"liqo.io/identity-type": "ControlPlane"})
			all["namespace"].SetAnnotations(nil)
			i.Before = true
		}, ""},
		"what an agent may not read": {func(_ *Inspection, all map[string]client.Object) {
			secretOfMilan(all, map[string]string{"liqo.io/identity-type": "ControlPlane"})
		}, ""},
		"no Liqo": {func(i *Inspection, _ map[string]client.Object) {
			i.Installed = func() (bool, error) { return false, nil }
		}, "-DefaultClassOpen LiqoMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme,
				authv1beta1.AddToScheme, offv1beta1.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			all, i := cluster(t), &Inspection{Lends: true, Namespace: "bourse", LiqoNamespace: "liqo",
				Served: func() (liqo.Served, error) { return liqo.Served{}, nil }}
			c.change(i, all)
			cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(slices.Collect(maps.Values(all))...).Build()
			i.Reader, i.Lists, i.Writer = cluster, cluster, cluster
			want := strings.Fields("DefaultClassOpen " + c.want)
			if rest, without := strings.CutPrefix(c.want, "-DefaultClassOpen"); without {
				want = strings.Fields(rest)
			}
			var got []string
			for _, p := range i.Problems(t.Context()) {
				got = append(got, p.Code)
				if p.Detail == "" || p.Remedy == "" && p.Code != "MixedPeering" {
					t.Errorf("%s says %q, to do is %q", p.Code, p.Detail, p.Remedy)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) {
				t.Errorf("found %v, want %v", got, want)
			}
		})
	}
}

func secretOfMilan(all map[string]client.Object, labels map[string]string) {
	all["namespace"] = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "demo-milan", Labels: map[string]string{consts.RemoteClusterID: "milan"}, Annotations: map[string]string{consts.RemoteNamespaceManagedByAnnotationKey: "x/y"},
	}}
	all["secret"] = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-milan", Name: "left", Labels: labels}}
}

func isPolicy(name string, _ client.Object) bool {
	return strings.HasPrefix(name, "policy ") || strings.HasPrefix(name, "binding ")
}

// A list of consumers that the agent writes again is no problem. One that it may not write is, with the reason.
func TestAListOfConsumersThatIsMissing(t *testing.T) {
	server := fake.NewClientBuilder().Build()
	reads := 0
	again := interceptor.NewClient(server, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey,
		client.Object, ...client.GetOption) error {
		if reads++; reads == 1 {
			return apierrors.NewNotFound(corev1.Resource("configmaps"), consumers)
		}
		return nil
	}})
	forbidden := interceptor.NewClient(server, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object,
		...client.CreateOption) error {
		return apierrors.NewForbidden(corev1.Resource("configmaps"), consumers, errors.New("no right"))
	}})
	for want, c := range map[string]client.Client{"": again, "cannot write it": forbidden} {
		found, err := (&Inspection{Reader: c, Writer: c, Lends: true, Namespace: "bourse"}).list(t.Context())
		if err != nil || (len(found) > 0) != (want != "") || want != "" && !strings.Contains(found[0].Detail, want) {
			t.Errorf("found %+v, %v, want %q", found, err, want)
		}
	}
}

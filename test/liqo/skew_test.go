package liqo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// A peer's Liqo is upgraded alone, under a running reservation: it is resized, extended and ends, and another one
// is made. Both doctors warn. Then the new Liqo loses a capability. What runs goes on, nothing new is reserved, and the
// doctor names the capability. The upgrade is the label that Liqo's chart sets, and the CRDs of 1.3.
func TestAPeersLiqoIsUpgradedAlone(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "upgraded", amounts("2", "2Gi"))
	a.becomes(api.Active)
	a.run(1, "1", "1Gi")
	a.running(w.milan, 1)

	w.setLiqoVersion(t, w.milan, "v1.3.0")
	for crd, fields := range later {
		w.changeCRD(t, w.milan, crd, func(schema map[string]any) {
			for path, field := range fields {
				setField(schema, path, field)
			}
			if strings.HasPrefix(crd, "gateway") {
				spec := schema["properties"].(map[string]any)["spec"].(map[string]any)["properties"].(map[string]any)
				spec["endpoint"].(map[string]any)["x-kubernetes-validations"] = onePort
			}
		})
	}
	for _, gateway := range []kube.Object{network.NewServer(lab.LiqoNamespace, "rome", lab.LiqoNamespace, network.GatewayNodePort),
		network.NewClient(lab.LiqoNamespace, "rome", lab.LiqoNamespace, &api.HandshakeEndpoint{
			Addresses: []string{"192.0.2.1"}, Port: 30001, Protocol: "UDP"})} {
		if err := w.milan.Objects.Create(t.Context(), gateway, kube.DryRunAll); err != nil {
			t.Errorf("a gateway of ours: %v", err)
		}
	}
	w.finds(t, w.milan, health.LiqoUntested, "")
	w.finds(t, w.rome, health.VersionSkew, "cluster milan")
	if err := a.edit(func(s *api.ResourceRequestSpec) { s.Resources = amounts("3", "2Gi") }); err != nil {
		t.Fatal(err)
	}
	a.answered("UpToDate")
	w.granted(t, w.rome, w.milan, "3")
	if err := a.edit(func(s *api.ResourceRequestSpec) { s.Duration = &metav1.Duration{Duration: 50 * time.Hour} }); err != nil {
		t.Fatal(err)
	}
	a.answered("UpToDate")
	b := w.ask(t, w.rome, w.milan, "anew", amounts("1", "1Gi"))
	b.becomes(api.Active)
	b.release()
	a.running(w.milan, 1)

	w.changeCRD(t, w.milan, "virtualnodes.offloading.liqo.io", func(schema map[string]any) { setField(schema, "spec.labels", nil) })
	w.finds(t, w.milan, health.LiqoIncompatible, "")
	d, err := w.milan.People(0).Diagnose(t.Context())
	if err != nil || !slices.ContainsFunc(d.Problems, func(p api.Problem) bool {
		return p.Code == health.LiqoIncompatible.Code && strings.Contains(p.Detail, `"virtual nodes"`)
	}) {
		t.Errorf("the doctor finds %+v, %v", d, err)
	}
	eventually(t, "milan is no candidate", func(ctx context.Context) error {
		e, err := w.rome.People(0).Evaluate(ctx, api.Request{Resources: amounts("1", "1Gi")})
		if err != nil {
			return err
		}
		i := slices.IndexFunc(e.Clusters, func(v api.Verdict) bool { return v.Cluster == "milan" })
		if e.Decision.Chosen == "milan" || i < 0 || e.Clusters[i].Reason != "OtherLiqo" {
			return fmt.Errorf("%+v", e)
		}
		return nil
	})
	a.running(w.milan, 1)
	a.becomes(api.Active)

	w.setLiqoVersion(t, w.milan, lab.LiqoVersion)
	w.restoreCRDs(t, w.milan)
	eventually(t, "milan is a candidate again", func(ctx context.Context) error {
		e, err := w.rome.People(0).Evaluate(ctx, api.Request{Resources: amounts("1", "1Gi"), Target: "milan"})
		if err == nil && e.Decision.Chosen != "milan" {
			err = fmt.Errorf("%+v", e)
		}
		return err
	})
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// later are the fields that Liqo's kinds have after 1.2, by CRD and path, as far as Bourse meets them.
var later = map[string]map[string]any{
	"resourceslices.authentication.liqo.io": {"status.class": texts},
	"virtualnodes.offloading.liqo.io": {"status.effectiveOffloadingPatch": map[string]any{
		"type": "object", "x-kubernetes-preserve-unknown-fields": true}, "status.effectiveCreateNode": map[string]any{"type": "boolean"}},
	"gatewayservers.networking.liqo.io": {"spec.endpoint.ports": ports, "status.endpoint.ports": ports},
	"gatewayclients.networking.liqo.io": {"spec.endpoint.ports": ports},
}

// onePort are the rules that Liqo's gateways have after 1.2, by CRD, for spec.endpoint.
var onePort = []any{
	map[string]any{"rule": "!(has(self.port) && has(self.ports))", "message": "port and ports are mutually exclusive"},
	map[string]any{"rule": "has(self.port) || (has(self.ports) && size(self.ports) > 0)", "message": "at least one of port or ports must be set"},
}

var (
	texts = map[string]any{"type": "string"}
	ports = map[string]any{"type": "array", "maxItems": int64(64), "items": map[string]any{"type": "integer", "format": "int32"}}
)

// setLiqoVersion writes the version that a cluster's Liqo shows, and the tested one again after the test.
func (w *world) setLiqoVersion(t *testing.T, at *federation.Member, version string) {
	t.Helper()
	set := func(version string) error {
		d := &appsv1.Deployment{}
		d.Namespace, d.Name = lab.LiqoNamespace, string(lab.LiqoControllerManager)
		return at.Objects.Patch(context.Background(), d, kube.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"app.kubernetes.io/version":%q}}}`, version)))
	}
	if err := set(version); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(lab.LiqoVersion); err != nil {
			t.Error(err)
		}
	})
}

// changed are the CRDs as they were before changeCRD, by cluster and name.
var changed = map[string]any{}

// changeCRD changes the schema of a CRD of Liqo's, until restoreCRDs or the end of the test.
func (w *world) changeCRD(t *testing.T, at *federation.Member, name string, change func(schema map[string]any)) {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	if err := at.Objects.Get(t.Context(), kube.ObjectKey{Name: name}, crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	if _, is := changed[at.Name+"/"+name]; !is {
		changed[at.Name+"/"+name], _, _ = unstructured.NestedSlice(crd.Object, "spec", "versions")
		t.Cleanup(func() { w.restoreCRDs(t, at) })
	}
	schema, _, _ := unstructured.NestedMap(versions[0].(map[string]any), "schema", "openAPIV3Schema")
	change(schema)
	_ = unstructured.SetNestedMap(versions[0].(map[string]any), schema, "schema", "openAPIV3Schema")
	_ = unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions")
	if err := at.Objects.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
}

// restoreCRDs undoes what changeCRD did in a cluster.
func (w *world) restoreCRDs(t *testing.T, at *federation.Member) {
	t.Helper()
	for key, versions := range changed {
		name, here := strings.CutPrefix(key, at.Name+"/")
		if !here {
			continue
		}
		crd := &unstructured.Unstructured{}
		crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		crd.SetName(name)
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"versions": versions}})
		if err := errors.Join(err, at.Objects.Patch(context.Background(), crd,
			kube.RawPatch(types.MergePatchType, patch))); err != nil {
			t.Error(err)
			continue
		}
		delete(changed, key)
	}
}

// setField sets the schema of a field, such as "status.class"; nil removes it.
func setField(schema map[string]any, path string, to any) {
	parts := strings.Split(path, ".")
	for _, part := range parts[:len(parts)-1] {
		schema = schema["properties"].(map[string]any)[part].(map[string]any)
	}
	if to == nil {
		delete(schema["properties"].(map[string]any), parts[len(parts)-1])
		return
	}
	schema["properties"].(map[string]any)[parts[len(parts)-1]] = to
}

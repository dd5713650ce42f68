package liqowatch

import (
	"context"
	"log/slog"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/agent/scheme"
)

// A cluster without Liqo has no Watch. Of a cluster with Liqo a change of its configuration is reported once.
func TestNewAndRun(t *testing.T) {
	mapper, now, changes := meta.NewDefaultRESTMapper(nil), testclock.NewFakeClock(time.Now()), make(chan struct{}, 10)
	controller := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager"},
		Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "controller-manager", Image: "ghcr.io/liqotech/liqo-controller-manager:v1.2.0",
		}}}}},
	}
	c := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(controller).Build()
	o := Options{
		Reader: c, Mapper: mapper, Namespace: "liqo", APIServer: "https://203.0.113.5:6443", AllowUntested: true, Clock: now,
		Changed: func() { changes <- struct{}{} }, Log: slog.New(slog.DiscardHandler),
	}
	if w, err := New(t.Context(), o); w != nil || err != nil {
		t.Fatalf("without Liqo: %v, %v", w, err)
	}
	mapper.Add(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind), meta.RESTScopeNamespace)
	w, err := New(t.Context(), o)
	if w == nil || err != nil {
		t.Fatalf("with Liqo: %v, %v", w, err)
	}
	before := w.Installation()
	if before.APIServer != o.APIServer {
		t.Errorf("the API server is %q, want that of the options", before.APIServer)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Run(ctx) }()
	controller.Spec.Template.Spec.Containers[0].Image = "ghcr.io/liqotech/liqo-controller-manager:v1.2.1"
	if err := c.Update(ctx, controller); err != nil {
		t.Fatal(err)
	}
	for !now.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	now.Step(readEvery)
	<-changes
	if after := w.Installation(); after == before {
		t.Errorf("it is still %+v", after)
	}
	cancel()
	if err := <-ended; err != nil || len(changes) > 0 {
		t.Errorf("%v, with %d changes more", err, len(changes))
	}
}

// A newer Liqo is used if its CRDs have all that Bourse uses, or an admin takes any version.
func TestNewWithAnotherLiqo(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind), meta.RESTScopeNamespace)
	for name, c := range map[string]struct {
		version, missing string
		until            int // how often it is missing; 0: for ever
		allow, used      bool
	}{
		"the tested version":             {version: "v1.2.3", missing: "not asked", used: true},
		"CRDs that were just installed":  {version: "v1.3.0", missing: "Tenant.spec.csr", until: 2, used: true},
		"a newer one":                    {version: "v1.3.0", used: true},
		"a newer one that lacks a field": {version: "v1.3.0", missing: "Tenant.spec.csr"},
		"the same, which is allowed":     {version: "v1.3.0", missing: "Tenant.spec.csr", allow: true, used: true},
		"an older one":                   {version: "v1.1.0"},
	} {
		controller := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
			Name: "liqo-controller-manager", Labels: map[string]string{"app.kubernetes.io/version": c.version}}}
		asked := 0
		w, err := New(t.Context(), Options{
			Reader: fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(controller).Build(),
			Mapper: mapper, Namespace: "liqo", APIServer: "https://203.0.113.5:6443", AllowUntested: c.allow,
			Missing: func() (string, error) {
				if asked++; c.until > 0 && asked > c.until {
					return "", nil
				}
				return c.missing, nil
			},
			Clock: testclock.NewFakeClock(time.Now()), Log: slog.New(slog.DiscardHandler),
		})
		if err != nil || (w != nil) != c.used {
			t.Errorf("%s: used: %v, want %v; %v", name, w != nil, c.used, err)
		}
	}
}

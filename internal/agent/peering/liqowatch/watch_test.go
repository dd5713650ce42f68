package liqowatch

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/openapi"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/liqo"
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
		Reader: c, Mapper: mapper, Namespace: "liqo", APIServer: "https://203.0.113.5:6443", Served: complete, Clock: now,
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

func complete() (liqo.Served, error) { return liqo.Served{}, nil }

// withoutKinds is an API server that serves none of Liqo's kinds.
type withoutKinds struct{}

func (withoutKinds) Paths() (map[string]openapi.GroupVersion, error) { return nil, nil }

// A Liqo is used if it has each capability. In a cluster with another one Waiting waits for one.
func TestNewWithAnotherLiqo(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind), meta.RESTScopeNamespace)
	for name, c := range map[string]struct {
		version string
		lacks   int64 // how often something is missing; -1: for ever
		used    bool
	}{
		"the tested version":                {version: "v1.2.3", used: true},
		"the tested version, damaged":       {version: "v1.2.3", lacks: -1},
		"CRDs that were just installed":     {version: "v1.3.0", lacks: 2, used: true},
		"a newer one":                       {version: "v1.3.0", used: true},
		"a newer one that lacks capability": {version: "v1.3.0", lacks: -1},
		"an older one":                      {version: "v1.1.0"},
	} {
		controller := controllerManager(c.version)
		objects := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(controller).Build()
		var asked, lacks atomic.Int64
		lacks.Store(c.lacks)
		now := testclock.NewFakeClock(time.Now())
		o := Options{
			Reader: objects, Mapper: mapper, Namespace: "liqo", APIServer: "https://203.0.113.5:6443",
			Served: func() (liqo.Served, error) {
				if asked, lacks := asked.Add(1), lacks.Load(); lacks >= 0 && asked > lacks {
					return liqo.Served{}, nil
				}
				return (&liqo.Probe{OpenAPI: withoutKinds{}}).Served()
			},
			Clock: now, Log: slog.New(slog.DiscardHandler),
		}
		w, err := New(t.Context(), o)
		if err != nil || (w != nil) != c.used {
			t.Errorf("%s: used: %v, want %v; %v", name, w != nil, c.used, err)
		}
		if c.used {
			continue
		}
		ended := make(chan error)
		go func() { ended <- Waiting{o}.Run(t.Context()) }()
		for !now.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		now.Step(readEvery)
		lacks.Store(0)
		controller.Labels["app.kubernetes.io/version"] = "v1.3.0"
		if err := objects.Update(t.Context(), controller); err != nil {
			t.Fatal(err)
		}
		now.Step(readEvery)
		if err := <-ended; !errors.Is(err, ErrUsable) {
			t.Errorf("%s: %v, want %v", name, err, ErrUsable)
		}
	}
}

// Liqo is upgraded while the agent runs. A capability that is gone for good takes Liqo off the card, and nothing is
// borrowed. It is back as soon as the capability is.
func TestACapabilityGoesAndReturns(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(authv1beta1.GroupVersion.WithKind(authv1beta1.ResourceSliceKind), meta.RESTScopeNamespace)
	controller := controllerManager("v1.2.0")
	objects := fake.NewClientBuilder().WithScheme(scheme.New()).WithObjects(controller).Build()
	lacks := 0
	w, err := New(t.Context(), Options{
		Reader: objects, Mapper: mapper, Namespace: "liqo", APIServer: "https://203.0.113.5:6443",
		Served: func() (liqo.Served, error) {
			if lacks--; lacks < 0 {
				return liqo.Served{}, nil
			}
			return (&liqo.Probe{OpenAPI: withoutKinds{}}).Served()
		},
		Clock: testclock.NewFakeClock(time.Now()), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(what, version string, missing int, changes, usable bool) {
		t.Helper()
		controller.Labels["app.kubernetes.io/version"], lacks = version, missing
		if err := objects.Update(t.Context(), controller); err != nil {
			t.Fatal(err)
		}
		changed, err := w.read(t.Context())
		var card api.Properties
		w.FillCard(&card, nil)
		cannot, _ := errors.AsType[*api.Error](w.CheckBorrow(t.Context()))
		if err != nil || changed != changes || (card.Liqo == version) != usable || (cannot == nil) != usable {
			t.Errorf("%s: changed %v, on the card %q, %v; %v", what, changed, card.Liqo, cannot, err)
		}
		if cannot != nil && (cannot.Code != api.CodeUnavailable || !strings.Contains(cannot.Detail, `"handshake"`)) {
			t.Errorf("%s: %v", what, cannot)
		}
	}
	look("nothing", "v1.2.0", 0, false, true)
	look("an upgrade", "v1.3.0", 0, true, true)
	look("schemas that are late", "v1.3.0", 3, false, true)
	look("a capability that is gone", "v1.3.0", 100, true, false)
	look("the same again", "v1.3.0", 100, false, false)
	look("the capability is back", "v1.3.0", 0, true, true)
}

func controllerManager(version string) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo",
		Name: "liqo-controller-manager", Labels: map[string]string{"app.kubernetes.io/version": version}}}
}

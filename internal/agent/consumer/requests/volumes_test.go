package requests

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/exchange/exchangetest"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/market"
)

// Why volumes cannot be read decides what helps: rights are missing only where the API server says so.
func TestWhyVolumesAreNotRead(t *testing.T) {
	resource := schema.GroupResource{Resource: "persistentvolumeclaims"}
	for _, c := range []struct {
		cause error
		helps string
	}{
		{apierrors.NewForbidden(resource, "", errors.New("no")), "apply config/liqo again"},
		{context.DeadlineExceeded, "bourse doctor"},
		{apierrors.NewTimeoutError("too slow", 1), "bourse doctor"},
		{apierrors.NewInternalError(errors.New("etcd is away")), "bourse doctor"},
		{errors.New("connection refused"), "bourse doctor"},
	} {
		r := New(Options{Borrower: NewBorrower(BorrowerOptions{Cluster: "rome"}), Volumes: failing{c.cause}})
		_, err := r.readVolumes(t.Context(), []string{"demo"})
		ours, ok := errors.AsType[*api.Error](err)
		if !ok || ours.Code != api.CodeUnavailable || !strings.Contains(ours.Detail, c.cause.Error()) ||
			!strings.Contains(ours.Remedy, c.helps) || apierrors.IsForbidden(c.cause) !=
			strings.Contains(ours.Remedy, "config/liqo") {
			t.Errorf("%v: %v", c.cause, err)
		}
	}
}

// failing is an API server that answers with an error.
type failing struct{ cause error }

func (f failing) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return f.cause
}

func (f failing) List(context.Context, client.ObjectList, ...client.ListOption) error { return f.cause }

// claims are the PersistentVolumeClaims of a cluster, by namespace. Those of a namespace that it
// lacks cannot be read.
type claims map[string][]corev1.PersistentVolumeClaim

func (c claims) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("not asked for")
}

func (c claims) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	all, known := c[o.Namespace]
	if !known {
		return errors.New("forbidden")
	}
	list.(*corev1.PersistentVolumeClaimList).Items = all
	return nil
}

func claim(node string, phase corev1.PersistentVolumeClaimPhase) corev1.PersistentVolumeClaim {
	return corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{offload.SelectedNode: node}},
		Status: corev1.PersistentVolumeClaimStatus{Phase: phase}}
}

// A request sticks to the providers that have volumes of the namespaces that it offloads, unless
// the data may stay behind.
func TestDataStays(t *testing.T) {
	ctx, x := t.Context(), exchangetest.Open(t, nil, exchange.Options{Self: "rome", Resume: true})
	for _, name := range []string{"milan", "oslo"} {
		if _, err := x.Do(ctx, market.Pin{Cluster: name, Key: "k-" + name}); err != nil {
			t.Fatal(err)
		}
	}
	node := market.SliceName("rome", "milan", "gpu")
	r := New(Options{Borrower: NewBorrower(BorrowerOptions{Cluster: "rome"}), Market: x, Volumes: claims{
		"demo":  {claim(node, corev1.ClaimBound), claim(node, corev1.ClaimBound), claim("worker-1", corev1.ClaimBound), {}},
		"fresh": {claim(market.SliceName("rome", "oslo", "general"), corev1.ClaimPending)},
		"other": {claim(market.SliceName("paris", "oslo", "general"), corev1.ClaimBound)},
		"both":  {claim(market.SliceName("rome", "oslo", "general"), corev1.ClaimBound)},
	}})
	for _, c := range []struct {
		offload *api.Offload
		named   []string
		want    []string
	}{
		{nil, []string{"lyon"}, []string{"lyon"}},
		{&api.Offload{Namespaces: []string{"demo"}}, nil, []string{"milan"}},
		{&api.Offload{Namespaces: []string{"demo", "both"}}, nil, []string{"milan", "oslo"}},
		{&api.Offload{Namespaces: []string{"demo"}, Data: api.DataMove}, nil, nil},
		{&api.Offload{Namespaces: []string{"demo"}, Data: api.DataStay}, []string{"lyon"}, []string{"lyon", "milan"}},
		{&api.Offload{Namespaces: []string{"fresh", "other"}}, nil, nil},
	} {
		object := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Request: api.Request{StickTo: c.named},
			Offload: c.offload}}
		if got, err := r.FindStickTo(ctx, object); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v sticks to %v, %v; want %v", c.offload, got, err, c.want)
		}
	}
	unknown := &api.ResourceRequest{Spec: api.ResourceRequestSpec{Offload: &api.Offload{Namespaces: []string{"secret"}}}}
	if _, err := r.FindStickTo(ctx, unknown); api.CodeOf(err) != api.CodeUnavailable {
		t.Errorf("volumes that cannot be seen: %v", err)
	}
}

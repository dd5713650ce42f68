package grant

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	offv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// paged answers lists in pages, as an API server does, and none that has no bound.
type paged struct {
	client.Client
	t     *testing.T
	pages int
}

func (p *paged) List(ctx context.Context, list client.ObjectList, how ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(how)
	if o.Limit < 1 || o.Limit > kubeobject.PodsAtOnce {
		p.t.Errorf("%T is listed with the limit %d", list, o.Limit)
	}
	p.pages++
	if err := p.Client.List(ctx, list, &client.ListOptions{LabelSelector: o.LabelSelector}); err != nil {
		return err
	}
	from, _ := strconv.Atoi(o.Continue)
	switch list := list.(type) {
	case *corev1.PodList:
		list.Items, list.Continue = page(list.Items, from, int(o.Limit))
	case *offv1beta1.ShadowPodList:
		list.Items, list.Continue = page(list.Items, from, int(o.Limit))
	}
	return nil
}

func page[T any](all []T, from, limit int) ([]T, string) {
	if from+limit < len(all) {
		return all[from : from+limit], strconv.Itoa(from + limit)
	}
	return all[from:], ""
}

// A consumer may have thousands of pods of up to 1.5 MiB. The agent never reads all of them in one answer.
func TestPodsAreReadInPages(t *testing.T) {
	const count = 100
	var all []client.Object
	for i := range count {
		ended, runs := work{name: fmt.Sprintf("e%03d", i), user: "rome", shadow: corev1.PodSucceeded, pod: corev1.PodSucceeded},
			work{name: fmt.Sprintf("r%03d", i), user: "rome", shadow: corev1.PodRunning, pod: corev1.PodRunning}
		all = append(append(all, ended.objects()...), runs.objects()...)
	}
	c := &paged{Client: fake.NewClientBuilder().WithScheme(schemes()).WithObjects(all...).Build(), t: t}
	sum, err := Ended(t.Context(), c, "rome")
	if got := sum["cpu"]; err != nil || got.String() != "40" {
		t.Errorf("ended pods take %v, %v", sum, err)
	}
	n, err := Excess{User: "rome", Keep: quantities("cpu", "8")}.TakeBack(t.Context(), c, c, time.Now())
	if err != nil || n != 80 {
		t.Errorf("%d pods are taken back, %v", n, err)
	}
	if c.pages < 4*2*count/kubeobject.PodsAtOnce {
		t.Errorf("all was read in %d pages", c.pages)
	}
}

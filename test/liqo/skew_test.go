package liqo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/test/lab"
)

// A peer whose Liqo is upgraded alone: what runs goes on, nothing new is reserved, and both doctors
// say why. What is read of an installation is the label that its chart sets.
func TestAPeersLiqoIsUpgradedAlone(t *testing.T) {
	w := start(t)
	upgrade := func(version string) {
		t.Helper()
		d := &appsv1.Deployment{}
		d.Namespace, d.Name = lab.LiqoNamespace, string(lab.LiqoControllerManager)
		if err := w.milan.Objects.Patch(context.Background(), d, kube.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"metadata":{"labels":{"app.kubernetes.io/version":%q}}}`, version))); err != nil {
			t.Fatal(err)
		}
	}
	a := w.ask(t, w.rome, w.milan, "upgraded", amounts("2", "2Gi"))
	a.becomes(api.Active)
	a.run(1, "1", "1Gi")
	a.running(w.milan, 1)

	upgrade("v1.3.0")
	t.Cleanup(func() { upgrade(lab.LiqoVersion) })
	w.finds(t, w.milan, health.LiqoUntested, "")
	w.finds(t, w.rome, health.VersionSkew, "cluster milan")
	e, err := w.rome.People(0).Evaluate(t.Context(), api.Request{Resources: amounts("1", "1Gi")})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(e.Clusters, func(v api.Verdict) bool { return v.Cluster == "milan" })
	if e.Decision.Chosen == "milan" || i < 0 || !strings.Contains(e.Clusters[i].Message,
		"other minor versions do not peer") {
		t.Errorf("it would be reserved: %+v", e)
	}
	a.running(w.milan, 1)
	a.becomes(api.Active)

	upgrade(lab.LiqoVersion)
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

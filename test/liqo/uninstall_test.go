package liqo

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/test/lab"
)

// Bourse leaves a cluster, and what runs there goes on as plain Liqo. Rome has no agent after it.
func TestUninstall(t *testing.T) {
	w := start(t)
	w.spent = true
	a := w.ask(t, w.rome, w.paris, "kept", amounts("1", "1Gi"))
	a.becomes(api.Active)
	a.run(1, "100m", "64Mi")
	a.running(w.paris, 1)
	var steps []string
	removal := install.Removal{Namespace: api.Namespace, LiqoNamespace: lab.LiqoNamespace,
		DryRun: true, Tell: func(s string) { steps = append(steps, s) }}
	remove := func() error { return install.Uninstall(t.Context(), w.rome.Cluster.Config(), removal) }
	if err := remove(); err != nil || !strings.HasPrefix(steps[0],
		"not yet: Conflict: peerings remain: paris.provider") {
		t.Fatalf("a dry run with a peering: %v, %q", err, steps)
	}
	steps, removal.DryRun = nil, false
	if err := remove(); api.CodeOf(err) != api.CodeConflict || len(steps) > 0 {
		t.Fatalf("with a peering: %v, %q", err, steps)
	}
	removal.KeepPeerings, removal.DryRun = true, true
	if err := remove(); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(steps, "\n")
	for _, want := range []string{"leave to Liqo: Identity", "leave to Liqo: ResourceSlice",
		"leave to Liqo: NamespaceOffloading kept/offloading", "delete ClusterRole bourse-agent", "delete CustomResourceDefinition peers.bourse.dev", "delete Namespace bourse"} {
		if !strings.Contains(all, want) {
			t.Errorf("it does not %s:\n%s", want, all)
		}
	}
	w.rome.Agent(0).Expect()
	w.rome.Agent(0).Kill()
	removal.DryRun = false
	for range 2 {
		if err := remove(); err != nil {
			t.Fatal(err)
		}
	}
	a.running(w.paris, 1)
	var node corev1.Node
	if err := w.rome.Objects.Get(t.Context(), kube.ObjectKey{Name: market.SliceName("rome", "paris", api.GeneralPool)},
		&node); err != nil {
		t.Error(err)
	}
	for _, list := range []kube.ObjectList{&api.PeerList{}, &api.ResourceRequestList{}} {
		eventually(t, fmt.Sprintf("rome no longer knows what a %T is", list), func(ctx context.Context) error {
			err := w.rome.Objects.List(ctx, list)
			if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("it answers %w", err)
		})
	}
}

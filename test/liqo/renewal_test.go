package liqo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// Liqo renews its certificates itself, and the agents let it, and say where it does not. One that
// has ended they bring as soon as there is another: nothing that runs ends by it.
func TestLiqoRenewsItsCertificates(t *testing.T) {
	w := start(t)
	// Kubernetes has what it signs begin five minutes ago: of 160 s two thirds are over in seven,
	// of half a minute four fifths at once.
	signFor := func(flags ...string) {
		t.Helper()
		w.milan.Flags[lab.ControllerManager] = flags
		if err := w.milan.Cluster.Restart(context.Background(), lab.ControllerManager); err != nil {
			t.Fatal(err)
		}
	}
	signFor("--cluster-signing-duration=160s")
	t.Cleanup(func() { signFor() })
	a := w.ask(t, w.rome, w.milan, "renewed", amounts("2", "2Gi"))
	a.becomes(api.Active)
	work := a.run(1, "500m", "512Mi")
	a.running(w.milan, 1)
	before := podsIn(t, w.milan, "renewed-rome")
	scale := func(replicas int) {
		t.Helper()
		if err := w.rome.Objects.Patch(t.Context(), work,
			kube.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
			t.Fatal(err)
		}
		a.running(w.milan, replicas)
	}

	for range 3 {
		old := w.certificates(t)
		eventually(t, "all certificates are renewed", func(context.Context) error {
			for object, until := range w.certificates(t) {
				if !until.After(old[object]) {
					return fmt.Errorf("that of %s still ends %s", object, until)
				}
			}
			return nil
		})
	}
	a.becomes(api.Active)
	scale(2)

	signFor("--cluster-signing-duration=30s")
	w.finds(t, w.rome, health.CertificateExpiring, "cluster milan")
	w.finds(t, w.milan, health.CertificateExpiring, "cluster rome")
	w.milan.Cluster.Kill(lab.LiqoControllerManager)
	w.finds(t, w.rome, health.CertificateExpired, "cluster milan")
	w.finds(t, w.milan, health.CertificateExpired, "cluster rome")

	// Rome's Liqo has no connection left to fetch what milan's Liqo signs: the agents transfer it.
	signFor()
	err := errors.Join(w.rome.Cluster.Restart(t.Context(), lab.LiqoCRDReplicator),
		w.milan.Cluster.Start(t.Context(), lab.LiqoControllerManager))
	if err != nil {
		t.Fatal(err)
	}
	fine := func(m *federation.Member) {
		t.Helper()
		eventually(t, "the doctor of "+m.Name+" finds nothing of this", func(ctx context.Context) error {
			d, err := m.People(0).Diagnose(ctx)
			for _, p := range d.Problems {
				if p.Code == health.CertificateExpiring.Code || p.Code == health.CertificateExpired.Code ||
					p.Code == health.MixedPeering.Code {
					return fmt.Errorf("it finds %+v", p)
				}
			}
			return err
		})
	}
	fine(w.milan)
	fine(w.rome)
	a.becomes(api.Active)
	scale(3)
	if after := podsIn(t, w.milan, "renewed-rome"); !slices.Contains(after, before[0]) {
		t.Errorf("the pods were %v, are %v", before, after)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// certificates returns when the certificates of rome's Liqo in milan end, by the object that has them.
func (w *world) certificates(t *testing.T) map[string]time.Time {
	t.Helper()
	all, err := peering.Certificates(t.Context(), w.rome.Objects)
	if err != nil || len(all) != 2 {
		t.Fatalf("the certificates are %v, %v", all, err)
	}
	out := map[string]time.Time{}
	for _, c := range all {
		out[c.Object] = c.Until
	}
	return out
}

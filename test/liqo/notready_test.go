package liqo

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// An Active reservation whose virtual node is not Ready says so: at the top of lists, in its
// conditions, and by the doctor.
func TestTheVirtualNodeIsNotReady(t *testing.T) {
	w := start(t)
	a := w.ask(t, w.rome, w.milan, "notready", amounts("1", "1Gi"))
	a.becomes(api.Active)
	a.tells(api.ConditionNodeReady, metav1.ConditionTrue)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: market.SliceName("rome", "milan", api.GeneralPool)}}
	w.setReady(t, node, corev1.ConditionFalse)
	a.tells(api.ConditionNodeReady, metav1.ConditionFalse, "lost its network")
	a.isReady(metav1.ConditionFalse, api.NodeNotReady)
	w.diagnoses(t, "NodeNotReady", "reservation "+a.request.Status.Reservation)
	first := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), w.Binary, "reservations", "--server", "unix://"+w.rome.Socket(0))
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	if line := first(); !strings.Contains(line, "NOT READY") || !strings.Contains(line, a.request.Status.Reservation) {
		t.Errorf("the list begins with %q", line)
	}
	w.setReady(t, node, corev1.ConditionTrue)
	a.isReady(metav1.ConditionTrue, string(api.Active))
	if line := first(); !strings.HasPrefix(line, "RESERVATION") {
		t.Errorf("the list begins with %q", line)
	}
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// setReady says whether a virtual node of rome is Ready, as Kubernetes does where its kubelet is lost.
func (w *world) setReady(t *testing.T, node *corev1.Node, is corev1.ConditionStatus) {
	t.Helper()
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","message":"it lost its network"}]}}`, is)
	if err := w.rome.Objects.Status().Patch(t.Context(), node,
		kube.RawPatch("application/strategic-merge-patch+json", []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// tells waits until the instruction of a request has a condition with these parts in its message.
func (a *asked) tells(condition string, status metav1.ConditionStatus, parts ...string) {
	a.t.Helper()
	eventually(a.t, fmt.Sprintf("%s is %s", condition, status), func(ctx context.Context) error {
		var i api.ReservationInstruction
		if err := a.from.Objects.Get(ctx, kube.ObjectKey{Namespace: a.request.Namespace, Name: a.request.Status.Reservation},
			&i); err != nil {
			return err
		}
		c := meta.FindStatusCondition(i.Status.Conditions, condition)
		if c == nil || c.Status != status || slices.ContainsFunc(parts,
			func(p string) bool { return !strings.Contains(c.Message, p) }) {
			return fmt.Errorf("the instruction shows %+v", i.Status.Conditions)
		}
		return nil
	})
}

// isReady waits for the condition Ready of a request.
func (a *asked) isReady(status metav1.ConditionStatus, reason string) {
	a.t.Helper()
	eventually(a.t, a.request.Name+" is Ready: "+string(status), func(ctx context.Context) error {
		var r api.ResourceRequest
		if err := a.from.Objects.Get(ctx, kube.ObjectKeyFromObject(a.request), &r); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(r.Status.Conditions, api.ConditionReady); c == nil ||
			c.Status != status || c.Reason != reason {
			return fmt.Errorf("it shows %+v", c)
		}
		return nil
	})
}

// diagnoses waits until the doctor of rome finds a problem.
func (w *world) diagnoses(t *testing.T, code, subject string) {
	t.Helper()
	eventually(t, "the doctor finds "+code, func(ctx context.Context) error {
		diagnosis, err := w.rome.People(0).Diagnose(ctx)
		if err == nil && !slices.ContainsFunc(diagnosis.Problems,
			func(p api.Problem) bool { return p.Code == code && p.Subject == subject }) {
			err = fmt.Errorf("it finds %+v", diagnosis.Problems)
		}
		return err
	})
}

package liqo

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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
	stop := w.keepNotReady(t, node)
	a.tells(api.ConditionNodeReady, metav1.ConditionFalse, "lost its network")
	a.isReady(metav1.ConditionFalse, api.NodeNotReady)
	w.diagnoses(t, "NodeNotReady", "reservation "+a.request.Status.Reservation)
	first := func() string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), w.Binary, "reservations", "-A", "--kubeconfig", w.rome.Cluster.Kubeconfig())
		cmd.Env = []string{"HOME=" + t.TempDir()}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	begins := func(what string, is func(line string) bool) {
		t.Helper()
		eventually(t, "the list begins with "+what, func(context.Context) error { // the agent lists from its cache
			if line := first(); !is(line) {
				return fmt.Errorf("it begins with %q", line)
			}
			return nil
		})
	}
	begins("what is not Ready", func(line string) bool {
		return strings.Contains(line, "NOT READY") && strings.Contains(line, a.request.Status.Reservation)
	})
	stop()
	if err := w.setReady(t.Context(), node, corev1.ConditionTrue); err != nil {
		t.Fatal(err)
	}
	a.isReady(metav1.ConditionTrue, string(api.Active))
	begins("its header", func(line string) bool { return strings.HasPrefix(line, "RESERVATION") })
	a.release()
	w.nothingLeft(t, w.rome, w.milan)
}

// keepNotReady says that a virtual node of rome is not Ready, until stop. Its virtual kubelet, which still runs,
// says otherwise each time that Liqo writes the VirtualNode.
func (w *world) keepNotReady(t *testing.T, node *corev1.Node) (stop func()) {
	t.Helper()
	if err := w.setReady(t.Context(), node, corev1.ConditionFalse); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var again sync.WaitGroup
	again.Go(func() {
		for ; ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			var n corev1.Node
			if w.rome.Objects.Get(ctx, kube.ObjectKeyFromObject(node), &n) == nil && isReady(&n) {
				_ = w.setReady(ctx, node.DeepCopy(), corev1.ConditionFalse)
			}
		}
	})
	return func() {
		cancel()
		again.Wait()
	}
}

// setReady says whether a virtual node of rome is Ready, as Kubernetes does where its kubelet is lost.
func (w *world) setReady(ctx context.Context, node *corev1.Node, is corev1.ConditionStatus) error {
	patch := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":%q,"reason":"Test","message":"it lost its network"}]}}`, is)
	return w.rome.Objects.Status().Patch(ctx, node,
		kube.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
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

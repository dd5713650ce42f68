package liqo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/doctor"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// is finds a problem of a kind.
func is(k health.Kind, subject string) func(api.Problem) bool {
	return func(p api.Problem) bool {
		return p.Code == k.Code && p.Severity == k.Severity && p.Subject == subject && p.Detail != ""
	}
}

// finds waits until the doctor of a cluster finds a problem, and says how to fix it.
func (w *world) finds(t *testing.T, m *federation.Member, k health.Kind, subject string) {
	t.Helper()
	eventually(t, "the doctor of "+m.Name+" finds "+k.Code, func(ctx context.Context) error {
		d, err := m.People(0).Diagnose(ctx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(d.Problems, is(k, subject))
		if i < 0 {
			return fmt.Errorf("it finds %+v", d.Problems)
		}
		if d.Problems[i].Remedy == "" {
			return errors.New("it knows no remedy")
		}
		return nil
	})
}

// A cluster that works has no problem that is an error: neither for its agent, nor for who looks
// before there is one. One whose webhook is down has.
func TestDoctor(t *testing.T) {
	w := start(t)
	for _, m := range []*federation.Member{w.rome, w.milan, w.paris} {
		own, err := m.People(0).Diagnose(t.Context())
		if err != nil || health.Worst(own.Problems) == api.SeverityError ||
			slices.ContainsFunc(own.Problems, is(health.NotChecked, "")) {
			t.Errorf("%s has %+v, %v", m.Name, own.Problems, err)
		}
		w.finds(t, m, health.APIServerLocal, m.Cluster.Config().Host) // as it is here
		before, err := doctor.Preflight(t.Context(), m.Cluster.Config(), lab.LiqoNamespace)
		if err != nil || health.Worst(before.Problems) == api.SeverityError {
			t.Errorf("before: %s has %+v, %v", m.Name, before.Problems, err)
		}
	}
	w.paris.Cluster.Kill(lab.LiqoWebhook)
	w.finds(t, w.paris, health.LiqoWebhookDown, "")
	w.tellsOfIt(t, `bourse_agent_problems{code="LiqoWebhookDown",severity="Error"} 1`)
	var own api.Advertisement
	eventually(t, "the Advertisement of paris says what the doctor found", func(ctx context.Context) error {
		err := w.paris.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: "cluster"}, &own)
		if c := meta.FindStatusCondition(own.Status.Conditions, api.ConditionHealthy); err == nil &&
			(c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, health.APIServerLocal.Code)) {
			err = fmt.Errorf("it says %+v", c)
		}
		return err
	})
	if err := w.paris.Cluster.Start(t.Context(), lab.LiqoWebhook); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the webhook is up", func(ctx context.Context) error {
		d, err := w.paris.People(0).Diagnose(ctx)
		if err == nil && slices.ContainsFunc(d.Problems, is(health.LiqoWebhookDown, "")) {
			err = errors.New("it is down")
		}
		return err
	})
}

// tellsOfIt looks for a line in the metrics of paris.
func (w *world) tellsOfIt(t *testing.T, line string) {
	t.Helper()
	if !slices.Contains(w.metricsOfParis(t), line) {
		t.Errorf("the metrics lack %s", line)
	}
}

func (w *world) metricsOfParis(t *testing.T) (lines []string) {
	t.Helper()
	answer, err := http.Get("http://" + w.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

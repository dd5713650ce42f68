package liqo

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A provider of a pool that liqo-broker's /api/toggle disables keeps its pods: a broker's word moves none. The pool
// says when it leaves, in a condition and an Event, and how it leaves at once. When half of the reservation's time
// is left, its pods run at a provider that is enabled.
func TestAProviderThatIsDisabledLeavesAtHalfOfItsTime(t *testing.T) {
	w := start(t)
	const lasts = 2 * time.Minute
	a := w.bursts(t, "toggled", func(s *api.VirtualNodePoolSpec) {
		s.Template.Duration = &metav1.Duration{Duration: lasts}
		s.Providers.Spread = 1
	})
	w.toggle(t, w.rome, http.MethodPost, "?id=milan&enable=true")
	t.Cleanup(func() {
		if !w.spent {
			w.toggle(t, w.rome, http.MethodDelete, "")
		}
	})
	a.run(2, "500m", "64Mi")
	a.running(w.milan, 2)
	before := podsIn(t, w.milan, "toggled-rome")

	w.toggle(t, w.rome, http.MethodPost, "?id=paris&enable=true")
	w.toggle(t, w.rome, http.MethodPost, "?id=milan&enable=false")
	a.condition(api.ConditionDrifted, metav1.ConditionTrue, api.PoolProviderDisabled)
	left := a.requests(t.Context())[0].Status.Until.Add(-lasts / 2)
	drifted := meta.FindStatusCondition(a.status(t.Context()).Conditions, api.ConditionDrifted).Message
	want := fmt.Sprintf("milan is disabled at the broker and leaves at %s; at once: bourse vnp disable toggled milan",
		left.UTC().Format(time.RFC3339))
	if drifted != want {
		t.Errorf("it says %q, want %q", drifted, want)
	}
	eventually(t, "an Event says so", func(ctx context.Context) error {
		var events corev1.EventList
		err := w.rome.Objects.List(ctx, &events)
		if err == nil && !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.Name == "toggled" && strings.Contains(e.Message, want)
		}) {
			err = fmt.Errorf("none does")
		}
		return err
	})
	if after := podsIn(t, w.milan, "toggled-rome"); !slices.Equal(before, after) {
		t.Errorf("by the broker's word alone, the pods at the provider were %v, are %v", before, after)
	}
	a.running(w.paris, 2)
	if now := time.Now(); now.Before(left) {
		t.Errorf("it left at %s, before %s", now, left)
	}
	w.nothingLeft(t, w.rome, w.milan)

	w.toggle(t, w.rome, http.MethodPost, "?id=milan&enable=true")
	w.toggle(t, w.rome, http.MethodPost, "?id=paris&enable=false")
	a.condition(api.ConditionDrifted, metav1.ConditionTrue, api.PoolProviderDisabled)
	began := time.Now()
	a.edit(func(s *api.VirtualNodePoolSpec) { s.Providers.Exclude = []string{"paris"} }) // bourse vnp disable toggled paris
	a.running(w.milan, 2)
	t.Logf("after bourse vnp disable, the pods run elsewhere within %s", time.Since(began).Round(time.Second))
	a.deletePool()
}

// toggle calls liqo-broker's /api/toggle as the agent of a cluster.
func (w *world) toggle(t *testing.T, as *federation.Member, method, query string) {
	t.Helper()
	ctx := context.Background() // also while a test is cleaned up
	var identity corev1.Secret
	if err := as.Objects.Get(ctx, kube.ObjectKey{Namespace: api.Namespace, Name: agent.SecretName}, &identity); err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(identity.Data[corev1.TLSCertKey], identity.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(identity.Data[corev1.ServiceAccountRootCAKey])
	transport := &http.Transport{TLSClientConfig: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, method, w.URL()+"/api/toggle"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s /api/toggle%s: %s", method, query, answer.Status)
	}
}

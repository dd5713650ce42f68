package network

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// through demands that a reservation becomes pods although only the tunnel leads to milan's API server. All parts
// of rome's Liqo that call it are pods in the machine, which lets nothing but the gateways' UDP through.
func (w *world) through(t *testing.T) {
	t.Helper()
	if err := w.rome.Cluster.MoveLiqo(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.reaches(t, w.rome, true)
	w.reaches(t, w.milan, false)
	w.hides(t)

	r := w.borrow(t, "fourth")
	w.becomes(t, r, api.Active)
	w.networkIs(t, r, metav1.ConditionTrue, "Connected")
	here := w.serve(t, w.rome, "fourth", "here", false)
	there := w.serve(t, w.rome, "fourth", "there", true)
	w.answers(t, here, there.Status.PodIP+":8080", "there")
	for _, change := range []struct {
		link  string
		found liqov1beta1.ConditionStatusType
	}{{"down", liqov1beta1.ConditionStatusError}, {"up", liqov1beta1.ConditionStatusEstablished}} {
		if _, err := w.machine.Run(t.Context(), "/bin/ip link set lan-milan "+change.link); err != nil {
			t.Fatal(err)
		}
		w.finds(t, change.found)
	}
	w.answers(t, here, there.Status.PodIP+":8080", "there")
	log, err := w.machine.Run(t.Context(), "cat /run/log/liqo_liqo-proxy*")
	if err != nil || !strings.Contains(log, "handling CONNECT to "+w.apiServer(w.milan)) {
		t.Errorf("milan's proxy says %q, %v", log, err)
	}
	w.end(t, r, "there")
	w.nothingLeft(t)
}

// apiServer is the address of a cluster's API server, on this machine.
func (w *world) apiServer(m *federation.Member) string {
	at, err := url.Parse(m.Cluster.Config().Host)
	if err != nil {
		panic(err) // the lab made it
	}
	return at.Host
}

// reaches demands that rome's node reaches a cluster's API server without the tunnel, or does not.
func (w *world) reaches(t *testing.T, m *federation.Member, want bool) {
	t.Helper()
	_, port, _ := strings.Cut(w.apiServer(m), ":")
	eventually(t, "rome's node shows whether it reaches the API server of "+m.Name, func(ctx context.Context) error {
		out, err := w.in(ctx, "node-rome", "get http://10.0.2.2:%s", port)
		if answers := strings.Contains(out, "HTTP request to an HTTPS server"); answers != want ||
			!want && !strings.Contains(fmt.Sprint(err), "connection refused") {
			return fmt.Errorf("rome's node reaches the API server of %s: %t, want %t: %q, %w", m.Name, answers, want, out, err)
		}
		return nil
	})
}

// hides makes milan offer its API server through the network only.
func (w *world) hides(t *testing.T) {
	t.Helper()
	eventually(t, "milan's policy says so", func(ctx context.Context) error {
		var p api.SharingPolicy
		if err := w.milan.Objects.Get(ctx, kube.ObjectKey{Name: "default"}, &p); err != nil {
			return err
		}
		p.Spec.APIServerAccess = api.APIServerNetwork
		return w.milan.Objects.Update(ctx, &p)
	})
	eventually(t, "milan's card says so", func(ctx context.Context) error {
		c, err := w.rome.People(0).Cluster(ctx, "milan")
		if p := c.Payload.Properties; err == nil && p.APIServerAccess != api.APIServerNetwork {
			err = fmt.Errorf("it says %+v", p)
		}
		return err
	})
}

// finds waits until rome's Liqo says that of milan's API server, which it calls all the time.
func (w *world) finds(t *testing.T, want liqov1beta1.ConditionStatusType) {
	t.Helper()
	eventually(t, "for rome's Liqo the API server of milan is "+string(want), func(ctx context.Context) error {
		var milan liqov1beta1.ForeignCluster
		if err := w.rome.Objects.Get(ctx, kube.ObjectKey{Name: "milan"}, &milan); err != nil {
			return err
		}
		for _, c := range milan.Status.Conditions {
			if c.Type == liqov1beta1.APIServerStatusCondition && c.Status == want {
				return nil
			}
		}
		return fmt.Errorf("it is %+v", milan.Status.Conditions)
	})
}

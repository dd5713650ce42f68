package charts

import (
	"context"
	"errors"
	"testing"

	kube "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The namespace of an agent is deleted and made again, in a cluster that shares nothing and has no broker. The agent
// reports that it is another one, until an admin accepts it by the command that the doctor names.
func TestASecondBirthIsReported(t *testing.T) {
	t.Parallel()
	p := newPlayerOf(t, api.Namespace, plainCluster)
	p.play(t, "helm upgrade --install bourse-base charts/bourse-base", "")
	installs := "helm upgrade --install bourse-agent charts/bourse-agent -n bourse --create-namespace " + image +
		" --set=clusterID=plain,liqo.enabled=false"
	p.play(t, installs, "")
	stop := p.startAgent(t, plainCluster)
	record := func() (out api.Agent) {
		t.Helper()
		p.get(t, plainCluster, "", api.AgentName, &out)
		return out
	}
	var first api.Agent
	eventually(t, "the agent is recorded", func(ctx context.Context) error { // a replica is Ready before it leads
		err := p.client(t, plainCluster).Get(ctx, kube.ObjectKey{Name: api.AgentName}, &first)
		if err == nil && first.Status.Fingerprint == "" {
			err = errors.New("it has no status")
		}
		return err
	})
	if s := first.Status; s.Ledger == "" || s.Cluster != plainCluster || s.Namespace != api.Namespace || s.Version == "" {
		t.Errorf("it records %+v", s)
	}
	p.play(t, "kubectl get agents.bourse.dev", first.Status.Fingerprint)
	const reports = `bourse doctor | grep -A9 "IdentityReplaced"`
	p.play(t, "bourse doctor | grep WaitsForToken && ! "+reports, "")

	p.play(t, "kubectl annotate namespace bourse bourse.dev/may-die=true", "")
	stop()
	p.play(t, "kubectl delete namespace bourse", "deleted")
	p.play(t, installs, "")
	p.startAgent(t, plainCluster)
	const accepts = "kubectl delete agents.bourse.dev default"
	p.play(t, reports, accepts)
	if now := record(); now.UID != first.UID || now.Status != first.Status {
		t.Errorf("it records %+v, want %+v", now.Status, first.Status)
	}
	p.play(t, accepts, "deleted")
	p.play(t, "bourse doctor | grep WaitsForToken && ! "+reports, "")
	if second := record().Status; second.Fingerprint == first.Status.Fingerprint || second.Ledger == first.Status.Ledger {
		t.Errorf("it records %+v after %+v", second, first.Status)
	}
}

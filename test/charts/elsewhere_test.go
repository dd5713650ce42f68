package charts

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// A user of one namespace, and an admin, reach an agent in a pod of another namespace than the usual one, with their
// kubeconfigs: by bourse, and without it. Who may not forward its port learns which command grants that.
func TestAnAgentInAnotherNamespaceIsReached(t *testing.T) {
	t.Parallel()
	const agents = "platform-x"
	p := newPlayerOf(t, agents, "milan")
	config, err := clientcmd.LoadFromFile(p.clusters["milan"].Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Impersonate = "ann"
	}
	ann := filepath.Join(p.dir, "ann")
	if err := clientcmd.WriteToFile(*config, ann); err != nil {
		t.Fatal(err)
	}
	p.play(t, "helm upgrade --install bourse-base charts/bourse-base --set=agent.namespace="+agents, "")
	p.play(t, "helm upgrade --install bourse-agent charts/bourse-agent -n "+agents+" --create-namespace "+image+" --set=clusterID=milan", "")
	p.play(t, "kubectl get namespace team || kubectl create namespace team", "")
	p.startAgent(t, "milan")

	grants := "bourse auth grant ann -n team --agent-namespace " + agents
	p.play(t, grants+" | kubectl apply -f -", "")
	p.play(t, "KUBECONFIG="+ann+" bourse auth whoami -n team --agent-namespace "+agents, "user       ann")
	// kubectl port-forward reads the pod first, which bourse does not.
	p.play(t, "kubectl -n "+agents+" create role reads-pods --verb=get --resource=pods && "+
		"kubectl -n "+agents+" create rolebinding reads-pods --role=reads-pods --user=ann", "")
	for _, by := range []string{"bourse status", "sh docs/examples/ask.sh team /status"} {
		p.play(t, "KUBECONFIG="+ann+" "+strings.Replace(by, "bourse ", "bourse -n team ", 1), "milan")
	}
	// The admin's objects of the agent are there, too.
	p.play(t, "bourse suspend rome --reason test --unknown", "")
	p.play(t, "kubectl get peers -A", agents+" ")

	p.play(t, "kubectl -n "+agents+" delete rolebinding bourse-port-forward:ann", "")
	federation.Eventually(t, 30*time.Second, "the right is gone", func(ctx context.Context) error {
		cmd := exec.CommandContext(ctx, p.bourse, "-n", "team", "status")
		cmd.Env = append(p.env, "KUBECONFIG="+ann)
		out, _ := cmd.CombinedOutput()
		if want := "bourse auth grant YOU -n NAMESPACE --agent-namespace " + agents; !strings.Contains(string(out), want) {
			return fmt.Errorf("it does not say %q: %s", want, out)
		}
		return nil
	})
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// findKubectl is the path of a kubectl: the machine's, or one built beside the daemons.
func findKubectl(ctx context.Context) (string, error) {
	if path, err := exec.LookPath("kubectl"); err == nil {
		return path, nil
	}
	return lab.Kubectl(ctx, os.Stderr)
}

const text = `
Three clusters are up, with a broker and an agent in each:

  rome    16 CPU   region it   borrows
  milan   %[3]s CPU   region it   lends 80 %%
  paris   32 CPU   region fr   lends all, at most 8 CPU to a reservation; 8 GPUs

In another terminal, as the people of rome:

  source %[1]s/env

  bourse clusters
  bourse reserve --cpu %[4]s --memory 512Mi --where 'region == "it"' --for 1h
  bourse reserve --cpu 40 --memory 8Gi --dry-run
  bourse reservations

  kubectl apply -f %[1]s/request.yaml
  kubectl get resourcerequests
  kubectl describe resourcerequest training
  kubectl --context paris get providerinstructions -n bourse
  kubectl --context paris get advertisement -n bourse
  kubectl delete resourcerequest training

  kubectl --context paris cordon paris-1
  sleep 3; bourse clusters                 # paris has 16 CPU less

Kill what you like, and start it again (etcd, kube-apiserver, agent and so on):

  lab kill milan agent
  lab start milan agent
  lab kill broker; lab start broker

%[5]sAs the operator of the broker: bourse --server unix://%[2]s broker members

`

const realText = `In milan's containers, and how they end:

  kubectl -n demo exec -it deployment/work -- sh
  kubectl --context milan -n demo-rome get pods --watch &
  kubectl -n demo delete pod -l app=work
  BOURSE_SERVER=unix://%[1]s bourse evict rome

`

const request = `apiVersion: bourse.dev/v1alpha1
kind: ResourceRequest
metadata: {name: training, namespace: default}
spec:
  resources: {cpu: "8", memory: 64Gi, nvidia.com/gpu: "2"}
  where: '"NVIDIA-A100-SXM4-80GB" in gpus'
  duration: 2h
`

// welcome writes the files that people need into dir, and tells how to use them.
func welcome(out io.Writer, dir string, f *federation.Federation, kubectl string, real bool) error {
	if err := os.Symlink(kubectl, filepath.Join(dir, "bin", "kubectl")); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	kubeconfig, err := writeContexts(dir, f)
	if err != nil {
		return err
	}
	environment := fmt.Sprintf("export PATH=%q:\"$PATH\"\nexport KUBECONFIG=%q KUBECACHEDIR=%q\nexport BOURSE_SERVER=unix://%q\n",
		filepath.Join(dir, "bin"), kubeconfig, filepath.Join(dir, "cache"), f.Members[0].Socket(0))
	for name, content := range map[string]string{"env": environment, "request.yaml": request} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	if milan := f.Members[1]; real {
		fmt.Fprintf(out, text, dir, f.BrokerSocket, " 2", "500m", fmt.Sprintf(realText, milan.Socket(0)))
	} else {
		fmt.Fprintf(out, text, dir, f.BrokerSocket, "64", "4", "")
	}
	for _, m := range f.Members {
		fmt.Fprintf(out, "  %-6s KUBECONFIG=%s BOURSE_SERVER=unix://%s\n", m.Name, m.Cluster.Kubeconfig(), m.Socket(0))
	}
	_, err = fmt.Fprintf(out, "\nLogs: %s/*.log and %[1]s/*/*.log. Ctrl-C ends it all.\n", dir)
	return err
}

// writeContexts writes one kubeconfig with a context of each cluster; the first is the current one.
func writeContexts(dir string, f *federation.Federation) (string, error) {
	path := filepath.Join(dir, "kubeconfig")
	rules := &clientcmd.ClientConfigLoadingRules{}
	for _, m := range f.Members {
		rules.Precedence = append(rules.Precedence, m.Cluster.Kubeconfig())
	}
	all, err := rules.Load()
	if err != nil {
		return "", err
	}
	return path, clientcmd.WriteToFile(*all, path)
}

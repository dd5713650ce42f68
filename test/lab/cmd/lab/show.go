package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// asking is a request of rome, work the pods that run on whatever it is lent. They come later: Liqo
// lets pods on virtual nodes that are made in a namespace that is offloaded already.
const asking = `apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: bourse.dev/v1alpha1
kind: ResourceRequest
metadata: {name: demo, namespace: demo}
spec:
  resources: {cpu: "4", memory: 8Gi}
  where: region == "it"
  duration: 8h
  offload: {namespaces: [demo]}
`

const work = `apiVersion: apps/v1
kind: Deployment
metadata: {name: work, namespace: demo}
spec:
  replicas: 3
  selector: {matchLabels: {app: work}}
  template:
    metadata: {labels: {app: work}}
    spec:
      nodeSelector: {liqo.io/type: virtual-node}
      containers:
        - {name: work, image: localhost/work, resources: {requests: {cpu: 500m, memory: 512Mi}}}
`

// show lets pods of rome run on milan's nodes, and prints what kubectl says of it on both sides.
func show(ctx context.Context, f *federation.Federation, kubectl string) error {
	rome, milan := f.Members[0], f.Members[1]
	if err := rome.Cluster.Apply(ctx, []byte(asking)); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "rome asks for 4 CPU, and for three pods on them ...")
	for _, look := range []struct {
		at   *federation.Member
		args []string
	}{
		{rome, []string{"wait", "-n", "demo", "resourcerequest/demo",
			"--for=jsonpath={.status.state}=Active", "--timeout=120s"}},
		{rome, []string{"wait", "-n", "demo", "reservationinstructions",
			"--all", "--for=condition=Offloaded", "--timeout=120s"}},
		{rome, []string{"rollout", "status", "-n", "demo", "deployment/work", "--timeout=120s"}},
		{rome, []string{"get", "resourcerequests,reservationinstructions", "-n", "demo"}},
		{rome, []string{"get", "nodes,pods", "-n", "demo", "-o", "wide"}},
		{milan, []string{"get", "pods", "-n", "demo-rome", "-o", "wide"}},
		{milan, []string{"get", "providerinstructions,peerings", "-n", "bourse"}},
	} {
		if look.args[0] == "rollout" {
			if err := rome.Cluster.Apply(ctx, []byte(work)); err != nil {
				return err
			}
		}
		fmt.Printf("\n[%s] $ kubectl", look.at.Name)
		for _, a := range look.args {
			fmt.Printf(" %s", a)
		}
		fmt.Println()
		cmd := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", look.at.Cluster.Kubeconfig()},
			look.args...)...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("kubectl %v: %w", look.args, err)
		}
	}
	return nil
}

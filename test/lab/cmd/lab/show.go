package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/bourse-dev/bourse/test/e2e/federation"
	"github.com/bourse-dev/bourse/test/lab"
)

// asking is a request of rome, work the pods that run on what it is lent. They come later: Liqo
// lets pods on virtual nodes that are made in a namespace that is offloaded already.
const asking = `apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: bourse.dev/v1alpha1
kind: ResourceRequest
metadata: {name: demo, namespace: demo}
spec:
  resources: {cpu: "%d", memory: %dMi}
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
        - {name: work, image: %s, resources: {requests: {cpu: 100m, memory: 64Mi}}}
`

// bursting is a pool of virtual nodes for pods of rome that have no room there, and web a Deployment. Rome has
// room for eight of its pods.
const bursting = `apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: bourse.dev/v1alpha1
kind: VirtualNodePool
metadata: {name: burst}
spec:
  namespaces: [shop]
  max: {cpu: "8", memory: 16Gi}
  pendingFor: 1s
`

const web = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - {name: web, image: %s, resources: {requests: {cpu: "2", memory: 1Gi}}}
`

// look is a question to a cluster, after something is applied there.
type look struct {
	at      *federation.Member
	applies string
	args    []string
}

// show lets pods of rome run on milan's nodes, then those without room in rome on paris's, and prints what kubectl says
// of it.
func show(ctx context.Context, f *federation.Federation, kubectl string, real bool) error {
	rome, milan := f.Members[0], f.Members[1]
	cpu := 4
	if real {
		cpu = 1
	}
	looks := []look{
		{rome, fmt.Sprintf(asking, cpu, cpu*1024), []string{"wait", "-n", "demo", "resourcerequest/demo",
			"--for=jsonpath={.status.state}=Active", "--timeout=120s"}},
		{rome, "", []string{"wait", "-n", "demo", "reservationinstructions",
			"--all", "--for=condition=Offloaded", "--timeout=120s"}},
		{rome, fmt.Sprintf(work, lab.Image), []string{"rollout", "status", "-n", "demo", "deployment/work", "--timeout=120s"}},
		{rome, "", []string{"get", "resourcerequests,reservationinstructions", "-n", "demo"}},
		{rome, "", []string{"get", "nodes,pods", "-n", "demo", "-o", "wide"}},
		{milan, "", []string{"get", "pods", "-n", "demo-rome", "-o", "wide"}},
		{milan, "", []string{"get", "providerinstructions,peerings", "-n", "bourse"}},
	}
	if real {
		looks = append(looks,
			look{rome, "", []string{"exec", "-n", "demo", "deployment/work", "--", "get", "http://127.0.0.1:8080"}},
			look{rome, "", []string{"logs", "-n", "demo", "deployment/work"}})
	}
	looks = append(looks,
		look{rome, bursting, []string{"wait", "namespace/shop", "--timeout=120s",
			`--for=jsonpath={.metadata.labels.liqo\.io/scheduling-enabled}=true`}},
		look{rome, fmt.Sprintf(web, lab.Image),
			[]string{"rollout", "status", "-n", "shop", "deployment/web", "--timeout=120s"}},
		look{rome, "", []string{"scale", "-n", "shop", "deployment/web", "--replicas=10"}},
		look{rome, "", []string{"rollout", "status", "-n", "shop", "deployment/web", "--timeout=120s"}},
		look{rome, "", []string{"get", "vnp"}},
		look{rome, "", []string{"get", "pods", "-n", "shop", "-o", "wide"}},
	)
	fmt.Fprintf(os.Stderr, "rome asks for %d CPU, and for three pods on them; then its own nodes are full ...\n", cpu)
	for _, look := range looks {
		if err := look.print(ctx, kubectl); err != nil {
			return err
		}
	}
	return nil
}

// print applies what it applies, and prints the question and the answer.
func (l look) print(ctx context.Context, kubectl string) error {
	if l.applies != "" {
		if err := l.at.Cluster.Apply(ctx, []byte(l.applies)); err != nil {
			return err
		}
	}
	fmt.Printf("\n[%s] $ kubectl", l.at.Name)
	for _, a := range l.args {
		fmt.Printf(" %s", a)
	}
	fmt.Println()
	cmd := exec.CommandContext(ctx, kubectl, append([]string{"--kubeconfig", l.at.Cluster.Kubeconfig()}, l.args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl %v: %w", l.args, err)
	}
	return nil
}

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

// connected is asking with a network, and ends are a pod at home and one at milan that reach each other.
const connected = `apiVersion: v1
kind: Namespace
metadata: {name: demo}
---
apiVersion: bourse.dev/v1alpha1
kind: ResourceRequest
metadata: {name: demo, namespace: demo}
spec:
  resources: {cpu: "4", memory: 4Gi}
  network: wireguard
  duration: 8h
  offload: {namespaces: [demo]}
`

const ends = `apiVersion: v1
kind: Pod
metadata: {name: here, namespace: demo, labels: {app: here}}
spec:
  nodeSelector: {kubernetes.io/hostname: rome}
  containers: [{name: web, image: web, resources: {requests: {cpu: 50m, memory: 16Mi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: there, namespace: demo, labels: {app: there}}
spec:
  nodeSelector: {liqo.io/type: virtual-node}
  containers: [{name: web, image: web, resources: {requests: {cpu: 50m, memory: 16Mi}}}]
---
apiVersion: v1
kind: Service
metadata: {name: site, namespace: demo}
spec: {selector: {app: there}, ports: [{port: 80, targetPort: 8080}]}
`

// look is a question to a cluster, after something is applied there.
type look struct {
	at      *federation.Member
	applies string
	args    []string
}

// show lets pods of rome run on milan's nodes, then those without room in rome on paris's, and prints what kubectl says
// of it. With a network it has pods of both clusters reach each other instead.
func show(ctx context.Context, f *federation.Federation, kubectl string, o options) error {
	looks := connects
	if !o.network {
		looks = func(f *federation.Federation) []look { return offloads(f, o.real) }
	}
	for _, look := range looks(f) {
		if err := look.print(ctx, kubectl); err != nil {
			return err
		}
	}
	return nil
}

// requested are the looks at a request of rome's namespace demo, until it is in use.
func requested(rome *federation.Member, manifest string) []look {
	return []look{
		{rome, manifest, []string{"wait", "-n", "demo", "resourcerequest/demo",
			"--for=jsonpath={.status.state}=Active", "--timeout=180s"}},
		{rome, "", []string{"wait", "-n", "demo", "reservationinstructions",
			"--all", "--for=condition=Offloaded", "--timeout=120s"}},
	}
}

func connects(f *federation.Federation) []look {
	rome, milan := f.Members[0], f.Members[1]
	fmt.Fprintln(os.Stderr, "rome asks for 4 CPU and a network; it takes a minute in an emulated machine ...")
	return append(requested(rome, connected),
		look{rome, ends, []string{"wait", "-n", "demo", "pods", "--all", "--for=condition=Ready", "--timeout=120s"}},
		look{rome, "", []string{"get", "resourcerequests,reservationinstructions", "-n", "demo"}},
		look{rome, "", []string{"get", "pods,services", "-n", "demo", "-o", "wide"}},
		look{milan, "", []string{"get", "pods", "-n", "demo-rome", "-o", "wide"}},
		look{rome, "", []string{"get", "connections.networking.liqo.io", "-A"}},
	)
}

func offloads(f *federation.Federation, real bool) []look {
	rome, milan := f.Members[0], f.Members[1]
	cpu := 4
	if real {
		cpu = 1
	}
	fmt.Fprintf(os.Stderr, "rome asks for %d CPU, and for three pods on them; then its own nodes are full ...\n", cpu)
	looks := append(requested(rome, fmt.Sprintf(asking, cpu, cpu*1024)),
		look{rome, fmt.Sprintf(work, lab.Image), []string{"rollout", "status", "-n", "demo", "deployment/work", "--timeout=120s"}},
		look{rome, "", []string{"get", "resourcerequests,reservationinstructions", "-n", "demo"}},
		look{rome, "", []string{"get", "nodes,pods", "-n", "demo", "-o", "wide"}},
		look{milan, "", []string{"get", "pods", "-n", "demo-rome", "-o", "wide"}},
		look{milan, "", []string{"get", "providerinstructions,peerings", "-n", "bourse"}},
	)
	if real {
		looks = append(looks,
			look{rome, "", []string{"exec", "-n", "demo", "deployment/work", "--", "get", "http://127.0.0.1:8080"}},
			look{rome, "", []string{"logs", "-n", "demo", "deployment/work"}})
	}
	return append(looks,
		look{rome, bursting, []string{"wait", "namespace/shop", "--timeout=120s",
			`--for=jsonpath={.metadata.labels.liqo\.io/scheduling-enabled}=true`}},
		look{rome, fmt.Sprintf(web, lab.Image),
			[]string{"rollout", "status", "-n", "shop", "deployment/web", "--timeout=120s"}},
		look{rome, "", []string{"scale", "-n", "shop", "deployment/web", "--replicas=10"}},
		look{rome, "", []string{"rollout", "status", "-n", "shop", "deployment/web", "--timeout=120s"}},
		look{rome, "", []string{"get", "vnp"}},
		look{rome, "", []string{"get", "pods", "-n", "shop", "-o", "wide"}},
	)
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

package lab

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Daemon is one of the programs a cluster consists of, and the name of its executable.
type Daemon string

// The daemons, in the order in which they start.
const (
	Etcd              Daemon = "etcd"
	APIServer         Daemon = "kube-apiserver"
	ControllerManager Daemon = "kube-controller-manager"
	Scheduler         Daemon = "kube-scheduler"
	Kwok              Daemon = "kwok"
)

// allDaemons are those of a whole cluster; Liqo's start after these.
var allDaemons = []Daemon{Etcd, APIServer, ControllerManager, Scheduler, Kwok}

// daemons are those that the cluster runs.
func (c *Cluster) daemons() []Daemon {
	switch {
	case !c.light:
		return allDaemons
	case len(c.served) > 0:
		return []Daemon{Etcd, APIServer, Kwok}
	}
	return []Daemon{Etcd, APIServer}
}

func stopOrder() []Daemon {
	all := slices.Clone(allDaemons)
	slices.Reverse(all)
	return all
}

var (
	//go:embed stages.yaml
	stages []byte
	//go:embed audit-policy.yaml
	auditPolicy []byte
)

// PortForward has KWOK forward ports of a pod, which runs on one of its nodes, to ports of 127.0.0.1. These need not be
// open yet.
type PortForward struct {
	Namespace, Pod string
	// Ports are the ports of 127.0.0.1 by those of the pod.
	Ports map[int]int
}

// config is the forward as KWOK's configuration has it: one object for each pod.
func (f PortForward) config() string {
	text := fmt.Sprintf("---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: PortForward\n"+
		"metadata: {namespace: %s, name: %s}\nspec:\n  forwards:\n", f.Namespace, f.Pod)
	for port, to := range f.Ports {
		text += fmt.Sprintf("  - {ports: [%d], target: {port: %d, address: 127.0.0.1}}\n", port, to)
	}
	return text
}

// Exec has KWOK run the commands of `kubectl exec` in a pod as processes of this machine, with further variables.
type Exec struct {
	Namespace, Pod string
	Env            map[string]string
}

// config is the exec as KWOK's configuration has it.
func (e Exec) config() string {
	text := fmt.Sprintf("---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: Exec\n"+
		"metadata: {namespace: %s, name: %s}\nspec:\n  execs:\n  - local:\n      envs:\n", e.Namespace, e.Pod)
	for name, value := range e.Env {
		text += fmt.Sprintf("      - {name: %s, value: %q}\n", name, value)
	}
	return text
}

// writeConfig puts the daemons' configuration files into the cluster's folder.
func (c *Cluster) writeConfig() error {
	kwok := slices.Clone(stages)
	for _, object := range c.served {
		kwok = append(kwok, object...)
	}
	for name, content := range map[string][]byte{"stages.yaml": kwok, "audit-policy.yaml": auditPolicy} {
		if err := os.WriteFile(filepath.Join(c.dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// flags is how each daemon is told to be one cluster on one loopback address. They run in the
// cluster's folder, so files are named relative to it; that also keeps etcd's sockets below the 108
// bytes that a socket's path may have.
func (c *Cluster) flags(d Daemon) []string {
	var flags []string
	switch d {
	case Etcd:
		flags = []string{
			"--name=lab",
			"--data-dir=etcd",
			"--unsafe-no-fsync", // the page cache survives a killed process, and a lab does not survive its machine
			"--log-level=warn",
			"--listen-client-urls=unix://etcd.sock",
			"--listen-peer-urls=unix://etcd-peer.sock",
			// Required, well-formed, and read by nobody: there is one member.
			"--advertise-client-urls=http://127.0.0.1:2379",
			"--initial-advertise-peer-urls=http://127.0.0.1:2380",
			"--initial-cluster=lab=http://127.0.0.1:2380",
		}
	case APIServer:
		flags = []string{
			"--etcd-servers=unix://etcd.sock",
			"--bind-address=127.0.0.1",
			fmt.Sprintf("--secure-port=%d", c.port.number),
			"--permit-port-sharing", // with reservePort
			"--advertise-address=127.0.0.1",
			"--endpoint-reconciler-type=none", // loopback is no valid Endpoints address
			"--tls-cert-file=server.crt",
			"--tls-private-key-file=server.key",
			"--client-ca-file=ca.crt",
			"--token-auth-file=tokens.csv",
			"--authorization-mode=RBAC",
			"--allow-privileged=true",
			"--service-cluster-ip-range=10.100.0.0/16",
			"--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-key-file=sa.key",
			"--service-account-signing-key-file=sa.key",
			"--kubelet-preferred-address-types=InternalIP",
			"--audit-policy-file=audit-policy.yaml",
			"--audit-log-path=" + auditLog,
			"--audit-log-maxsize=100000", // MB: never rotate
			"--profiling=false",
		}
		if c.light {
			// Nobody would ever take the taint from a node, nor make the ServiceAccount that a pod needs.
			flags = append(flags, "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount")
		}
	case ControllerManager:
		flags = []string{
			"--kubeconfig=kubeconfig",
			"--secure-port=0",
			"--leader-elect=false",
			"--root-ca-file=ca.crt",
			"--controllers=" + strings.Join(controllers, ","),
			// The signer that Liqo uses. Each other one takes an inotify instance. A user has 128 of them.
			"--cluster-signing-kube-apiserver-client-cert-file=ca.crt",
			"--cluster-signing-kube-apiserver-client-key-file=ca.key",
		}
	case Scheduler:
		flags = []string{"--kubeconfig=kubeconfig", "--secure-port=0", "--leader-elect=false"}
	case Kwok:
		flags = []string{
			"--kubeconfig=kubeconfig",
			"--config=stages.yaml",
			"--manage-nodes-with-annotation-selector=" + fakeNode + "=fake",
			"--cidr=" + c.podCIDR(),
			"--node-ip=127.0.0.1",
			"--node-lease-duration-seconds=40",
		}
		if c.kubelet > 0 {
			flags = append(flags, fmt.Sprintf("--node-port=%d", c.kubelet),
				fmt.Sprintf("--server-address=127.0.0.1:%d", c.kubelet),
				"--tls-cert-file=server.crt", "--tls-private-key-file=server.key")
		}
	}
	return append(flags, c.extra[d]...)
}

// controllers are those that a cluster without cloud, disks and kubelets has work for.
var controllers = []string{
	"namespace-controller",
	"garbage-collector-controller",
	"pod-garbage-collector-controller",
	"serviceaccount-controller",
	"root-ca-certificate-publisher-controller",
	"deployment-controller",
	"daemonset-controller",
	"replicaset-controller",
	"statefulset-controller",
	"disruption-controller",
	"job-controller",
	"endpointslice-controller",
	"node-lifecycle-controller",
	"taint-eviction-controller",
	"resourcequota-controller",
	"persistentvolume-binder-controller", "persistentvolume-protection-controller",
	"persistentvolumeclaim-protection-controller", // else a claim that was deleted stays
	"validatingadmissionpolicy-status-controller",
	"certificatesigningrequest-signing-controller",
}

// podCIDR is that of the cluster's pods: a pod's address tells its cluster, except in a machine.
func (c *Cluster) podCIDR() string {
	if c.machine != nil {
		return "10.200.0.0/16"
	}
	return fmt.Sprintf("10.%d.0.0/16", c.number)
}

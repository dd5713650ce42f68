package lab

import (
	"context"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// machineNode plays the kubelet, the network plugin and the service proxy of a cluster's one node in a machine.
type machineNode struct {
	*Cluster
	*Machine
	ctx    context.Context
	next   int                             // the next pod's number, which is in its address
	pods   map[types.UID]*corev1.Pod       // those that run
	failed bool                            // something is to be tried again
	told   chan struct{}                   // something has changed
	see    informers.SharedInformerFactory // all of its pods, services and endpoints
}

// NodeAddress is the address of a cluster's node among the nodes of its machine.
func (c *Cluster) NodeAddress() string { return fmt.Sprintf("172.30.0.%d", 11+c.number) }

// startMachineNode adds the node and plays it until stop is called, which waits for it.
func (c *Cluster) startMachineNode(ctx context.Context) (stop func(), err error) {
	own, cancel := context.WithCancel(context.Background())
	n := &machineNode{
		Cluster: c, Machine: c.machine, ctx: own, next: 2, pods: map[types.UID]*corev1.Pod{}, told: make(chan struct{}, 1),
		see: informers.NewSharedInformerFactory(c.client, 0),
	}
	done := make(chan struct{})
	stop = func() { cancel(); n.see.Shutdown(); <-done }
	if err := n.prepare(ctx); err != nil {
		close(done)
		return stop, err
	}
	for _, informer := range []cache.SharedIndexInformer{
		n.see.Core().V1().Pods().Informer(), n.see.Core().V1().Services().Informer(), n.see.Discovery().V1().EndpointSlices().Informer(),
	} {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { n.tell() }, UpdateFunc: func(any, any) { n.tell() }, DeleteFunc: func(any) { n.tell() },
		}); err != nil {
			close(done)
			return stop, err
		}
	}
	n.see.Start(own.Done())
	n.see.WaitForCacheSync(own.Done())
	go func() { defer close(done); n.play() }()
	return stop, nil
}

// prepare makes the namespace of the node and its interfaces, and the Node.
func (n *machineNode) prepare(ctx context.Context) error {
	link := 4 * n.number
	_, err := n.Machine.Run(ctx, fmt.Sprintf(`
/bin/ip netns add node-%[1]s
/bin/ip link add up-%[1]s type veth peer name up0 netns node-%[1]s
/bin/ip address add 192.168.76.%[2]d/30 dev up-%[1]s
/bin/ip link set up-%[1]s up
/bin/ip link add lan-%[1]s type veth peer name lan0 netns node-%[1]s
/bin/ip link set lan-%[1]s master lan up
nsenter --net=/run/netns/node-%[1]s sh -e <<'END'
/bin/ip link set lo up
/bin/ip address add 192.168.76.%[3]d/30 dev up0
/bin/ip link set up0 up
/bin/ip route add default via 192.168.76.%[2]d
/bin/ip address add %[4]s/24 dev lan0
/bin/ip link set lan0 up
/bin/ip link add cni0 type bridge
/bin/ip address add %[5]s1/16 dev cni0
/bin/ip link set cni0 up
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
nft 'table ip cni { chain post { type nat hook postrouting priority 100; ip saddr %[6]s oifname { "up0", "lan0" } masquerade; }; }'
END`, n.name, link+1, link+2, n.NodeAddress(), n.podNet(), n.podCIDR()))
	if err != nil {
		return err
	}
	node := Node{Name: n.name, NotReady: true}.object() // so that KWOK leaves it alone
	node.Status.Conditions = []corev1.NodeCondition{readyCondition(true)}
	node.Status.Addresses[0].Address = n.NodeAddress()
	_, err = n.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	return err
}

// podNet are the first bytes of the pods' addresses.
func (n *machineNode) podNet() string { return strings.TrimSuffix(n.podCIDR(), "0/16") }

// play does what there is to do on each change, and renews the node's lease.
func (n *machineNode) play() {
	beat, services := time.NewTicker(10*time.Second), ""
	defer beat.Stop()
	n.renew()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-beat.C:
			n.renew()
		case <-n.told:
		}
		n.failed = false
		for _, o := range n.see.Core().V1().Pods().Informer().GetStore().List() {
			if p := o.(*corev1.Pod); p.Spec.NodeName == n.name {
				n.sync(p)
			}
		}
		n.forget()
		if next := n.services(); next != services {
			if _, err := n.Machine.Run(n.ctx, next); err != nil {
				n.retry("services", err)
				continue
			}
			services = next
		}
		if n.failed {
			time.AfterFunc(200*time.Millisecond, n.tell)
		}
	}
}

// tell makes play look again.
func (n *machineNode) tell() {
	select {
	case n.told <- struct{}{}:
	default:
	}
}

// retry reports what failed, and makes play try it again.
func (n *machineNode) retry(what string, err error) {
	n.failed = true
	if n.ctx.Err() == nil {
		n.lab().say("cluster %s: %s: %v", n.name, what, err)
	}
}

func (n *machineNode) lab() *Lab { return n.Cluster.lab }

func (n *machineNode) renew() {
	lease := coordinationapply.Lease(n.name, corev1.NamespaceNodeLease).WithSpec(coordinationapply.LeaseSpec().
		WithHolderIdentity(n.name).WithLeaseDurationSeconds(40).WithRenewTime(metav1.NowMicro()))
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if _, err := leases.Apply(n.ctx, lease, metav1.ApplyOptions{FieldManager: "lab", Force: true}); err != nil {
		n.retry("lease", err)
	}
}

// sync starts a pod that is new, and ends one that is being deleted.
func (n *machineNode) sync(p *corev1.Pod) {
	_, runs := n.pods[p.UID]
	switch {
	case p.DeletionTimestamp == nil && !runs:
		if err := n.startPod(p); err != nil {
			n.retry("start pod "+p.Name, err)
		}
	case p.DeletionTimestamp != nil:
		if err := n.endPod(p); err != nil {
			n.retry("end pod "+p.Name, err)
		}
	}
}

// forget ends what is left of pods that were deleted by force.
func (n *machineNode) forget() {
	for uid, p := range n.pods {
		if _, err := n.see.Core().V1().Pods().Lister().Pods(p.Namespace).Get(p.Name); err != nil {
			if _, err := n.Machine.Run(n.ctx, n.kill(p)); err == nil {
				delete(n.pods, uid)
			}
		}
	}
}

func podDir(p *corev1.Pod) string { return "/run/pods/" + string(p.UID) }

// startPod gives a pod its network, volumes and processes, and reports it Ready.
func (n *machineNode) startPod(p *corev1.Pod) error {
	address, namespace := n.NodeAddress(), "node-"+n.name
	var script strings.Builder
	fmt.Fprintf(&script, "mkdir -p %s /sys/fs/cgroup/%s\n", podDir(p), p.UID)
	if !p.Spec.HostNetwork {
		address, namespace = fmt.Sprintf("%s%d", n.podNet(), n.next), string(p.UID)
		if strings.HasPrefix(p.Namespace, "liqo-tenant-") {
			// A gateway of Liqo v1.2 does not reach a pod of the other cluster that has the gateway's own address.
			address = fmt.Sprintf("10.200.%d.%d", 101+n.number, n.next)
		}
		fmt.Fprintf(&script, `
/bin/ip netns add %[1]s
/bin/ip link add veth%[2]d netns node-%[3]s type veth peer name %[4]s netns %[1]s
nsenter --net=/run/netns/node-%[3]s /bin/ip link set veth%[2]d master cni0 up
nsenter --net=/run/netns/%[1]s sh -e <<'END'
/bin/ip link set lo up
/bin/ip address add %[5]s/16 dev %[4]s
/bin/ip link set %[4]s up
/bin/ip route add default via %[6]s1
END
`, namespace, n.next, n.name, n.device, address, n.podNet())
		n.next++
	}
	if err := n.volumes(&script, p); err != nil {
		return err
	}
	for _, c := range p.Spec.Containers {
		n.container(&script, p, c, namespace)
	}
	if _, err := n.Machine.Run(n.ctx, script.String()); err != nil {
		return err
	}
	n.pods[p.UID] = p
	return n.report(p, corev1.PodRunning, address)
}

// volumes writes a pod's Secrets, and the kubeconfig of its ServiceAccount.
func (n *machineNode) volumes(script *strings.Builder, p *corev1.Pod) error {
	file := func(name string, content []byte) {
		at := filepath.Join(podDir(p), name)
		fmt.Fprintf(script, "mkdir -p %s; echo %s | base64 -d > %s\n", filepath.Dir(at), base64.StdEncoding.EncodeToString(content), at)
	}
	for _, v := range p.Spec.Volumes {
		fmt.Fprintf(script, "mkdir -p %s/%s\n", podDir(p), v.Name)
		if v.Secret == nil {
			continue
		}
		secret, err := n.client.CoreV1().Secrets(p.Namespace).Get(n.ctx, v.Secret.SecretName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for key, content := range secret.Data {
			file(v.Name+"/"+key, content)
		}
	}
	request := &authenticationv1.TokenRequest{}
	account, err := n.client.CoreV1().ServiceAccounts(p.Namespace).CreateToken(n.ctx, p.Spec.ServiceAccountName, request, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config, err := clientcmd.Write(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"": {
			Server: fmt.Sprintf("https://10.0.2.2:%d", n.port.number), CertificateAuthorityData: n.admin.CAData, TLSServerName: "127.0.0.1",
		}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{"": {Token: account.Status.Token}},
		Contexts:  map[string]*clientcmdapi.Context{"": {}},
	})
	file("kubeconfig", config)
	return err
}

// container starts one: the program named like its image, in the pod's network, with its volumes, again and
// again as a kubelet does.
func (n *machineNode) container(script *strings.Builder, p *corev1.Pod, c corev1.Container, namespace string) {
	var inner strings.Builder
	for _, mount := range c.VolumeMounts {
		if at := filepath.Join(podDir(p), mount.Name); !strings.HasPrefix(mount.MountPath, "/var/run/secrets/") {
			fmt.Fprintf(&inner, "mkdir -p %s; mount --bind %s %s\n", mount.MountPath, at, mount.MountPath)
		}
	}
	fmt.Fprintf(&inner, "export POD_NAME=%s NODE_NAME=%s KUBECONFIG=%s/kubeconfig\n", p.Name, n.name, podDir(p))
	image := strings.TrimPrefix(c.Image, "ghcr.io/liqotech/")
	image, _, _ = strings.Cut(image, ":")
	fmt.Fprintf(&inner, "while :; do /images/%s", strings.ReplaceAll(image, "/", "-"))
	for _, arg := range c.Args {
		arg = strings.NewReplacer("$(POD_NAME)", p.Name, "$(NODE_NAME)", n.name, "'", `'\''`).Replace(arg)
		fmt.Fprintf(&inner, " '%s'", arg)
	}
	inner.WriteString("; echo ended, and started again; sleep 1; done\n")
	fmt.Fprintf(script, `cat > %[1]s/%[2]s.sh <<'END'
echo $$ > /sys/fs/cgroup/%[3]s/cgroup.procs
%[4]sEND
setsid nsenter --net=/run/netns/%[5]s unshare -m sh %[1]s/%[2]s.sh > /run/log/%[6]s_%[7]s_%[2]s.log 2>&1 < /dev/null &
`, podDir(p), c.Name, p.UID, inner.String(), namespace, p.Namespace, p.Name)
}

// kill is the script that ends a pod's processes and removes its network.
func (n *machineNode) kill(p *corev1.Pod) string {
	return fmt.Sprintf(`echo 1 > /sys/fs/cgroup/%[1]s/cgroup.kill || true
[ ! -e /run/netns/%[1]s ] || /bin/ip netns delete %[1]s
rm -rf %[2]s
`, p.UID, podDir(p))
}

// endPod ends a pod, reports that it has failed, as killed programs have, and removes it.
func (n *machineNode) endPod(p *corev1.Pod) error {
	if _, runs := n.pods[p.UID]; runs {
		if _, err := n.Machine.Run(n.ctx, n.kill(p)); err != nil {
			return err
		}
		delete(n.pods, p.UID)
		if err := n.report(p, corev1.PodFailed, p.Status.PodIP); err != nil {
			return err
		}
	}
	now := int64(0)
	err := n.client.CoreV1().Pods(p.Namespace).Delete(n.ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	return ignoreGone(err)
}

// report writes a pod's status.
func (n *machineNode) report(p *corev1.Pod, phase corev1.PodPhase, address string) error {
	p, now := p.DeepCopy(), metav1.Now()
	condition := corev1.ConditionTrue
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}
	if phase != corev1.PodRunning {
		condition = corev1.ConditionFalse
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", FinishedAt: now}}
	}
	p.Status.Phase, p.Status.HostIP, p.Status.HostIPs = phase, n.NodeAddress(), []corev1.HostIP{{IP: n.NodeAddress()}}
	p.Status.PodIP, p.Status.PodIPs = address, []corev1.PodIP{{IP: address}}
	p.Status.StartTime, p.Status.ContainerStatuses, p.Status.Conditions = &now, nil, nil
	for _, c := range p.Spec.Containers {
		started := phase == corev1.PodRunning
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: started, Started: &started, State: state,
		})
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		c := corev1.PodCondition{Type: kind, Status: condition, LastTransitionTime: now}
		if kind == corev1.PodScheduled || kind == corev1.PodInitialized {
			c.Status = corev1.ConditionTrue
		}
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
	p.ResourceVersion = ""
	_, err := n.client.CoreV1().Pods(p.Namespace).UpdateStatus(n.ctx, p, metav1.UpdateOptions{})
	return ignoreGone(err)
}

package lab

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	coordinationapply "k8s.io/client-go/applyconfigurations/coordination/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// machineNode plays the kubelet, the network plugin and the service proxy of a cluster's one node
// in a machine.
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
nft insert rule ip machine forward iifname up-%[1]s ip daddr %[7]s tcp dport '{ %[8]d, %[9]d }' accept
nsenter --net=/run/netns/node-%[1]s sh -e <<'END'
/bin/ip link set lo up
/bin/ip address add 192.168.76.%[3]d/30 dev up0
/bin/ip link set up0 up
/bin/ip route add default via 192.168.76.%[2]d
/bin/ip address add %[4]s/24 dev lan0
/bin/ip link set lan0 up
/bin/ip link add cni0 type bridge
/bin/ip link set cni0 address 02:00:00:00:00:01 # else it changes with its ports, and pods send to the old one
/bin/ip address add %[5]s1/16 dev cni0
/bin/ip link set cni0 up
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0
nft 'table ip cni { chain post { type nat hook postrouting priority 100; ip saddr %[6]s oifname { "up0", "lan0" } masquerade; }; }'
END`, n.name, link+1, link+2, n.NodeAddress(), n.podNet(), n.podCIDR(),
		hostFromMachine, n.port.number, n.liqo.ipam))
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

// play does what there is to do on each change, and meanwhile renews the node's lease.
func (n *machineNode) play() {
	var lease sync.WaitGroup
	lease.Go(n.renew)
	defer lease.Wait()
	services := ""
	for {
		select {
		case <-n.ctx.Done():
			return
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

// renew keeps the node's lease, however long its pods take to start, and makes play look again each time.
func (n *machineNode) renew() {
	beat := time.NewTicker(10 * time.Second)
	defer beat.Stop()
	leases := n.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	for n.ctx.Err() == nil {
		lease := coordinationapply.Lease(n.name, corev1.NamespaceNodeLease).WithSpec(coordinationapply.LeaseSpec().
			WithHolderIdentity(n.name).WithLeaseDurationSeconds(40).WithRenewTime(metav1.NowMicro()))
		_, err := leases.Apply(n.ctx, lease, metav1.ApplyOptions{FieldManager: "lab", Force: true})
		if err != nil && n.ctx.Err() == nil {
			n.lab().say("cluster %s: lease: %v", n.name, err)
		}
		n.tell()
		select {
		case <-n.ctx.Done():
		case <-beat.C:
		}
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

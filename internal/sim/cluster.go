// Package sim makes clusters that do not exist: nodes and pods that come and
// go behind an in-memory Kubernetes API, on which the real agent runs.
//
//	c, err := sim.NewCluster(ctx, sim.Options{Name: "milan", Region: "eu", Nodes: 5, Pods: 40, Seed: 7})
//	go c.Live(ctx, time.NewTicker(time.Second).C)
//	manager, err := ctrl.NewManager(c.API.Config(), ...)
//
// What happens in a cluster depends on its options and on how often it was
// stepped, never on the time or on who else uses its API.
package sim

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// Options shape a cluster. All its nodes are alike.
type Options struct {
	Name   string // the cluster's ID, and its nodes' prefix
	Region string // topology.kubernetes.io/region, empty means local; zones are REGION-a, -b, -c
	Nodes  int
	CPU    int64  // cores of a node; 0 means 16
	Memory int64  // GiB of a node; 0 means 64
	GPU    string // nvidia.com/gpu.product, such as "NVIDIA-H100-80GB-HBM3"; empty for none
	GPUs   int64  // of a node
	Arch   string // kubernetes.io/arch; empty means amd64
	Pods   int    // how many run at first, and about how many later
	Seed   uint64 // of all that happens, and of the API's UIDs; clusters that meet must not share it
	Clock  func() time.Time
	Types  []kubeapi.Type // served beside the built-in ones
}

// Cluster is a simulated cluster. Step and Live are for one goroutine; the API
// is for all.
type Cluster struct {
	API *kubeapi.API

	o      Options
	client kubernetes.Interface
	random *rand.Rand
	nodes  []*node
	pods   []*pod
	made   int // pods so far
}

// node is what a scheduler would know of one.
type node struct {
	name     string
	free     size
	cordoned bool
	notReady bool
}

type pod struct {
	name string
	on   *node
	size size
}

type size struct{ milliCPU, mebibytes, gpus int64 }

// namespace is where the cluster's own pods run.
const namespace = "apps"

// NewCluster returns a cluster with its nodes Ready and its pods Running.
func NewCluster(ctx context.Context, o Options) (*Cluster, error) {
	o.CPU, o.Memory = cmp.Or(o.CPU, 16), cmp.Or(o.Memory, 64)
	o.Region, o.Arch = cmp.Or(o.Region, "local"), cmp.Or(o.Arch, "amd64")
	if o.GPU == "" {
		o.GPUs = 0
	}
	api := kubeapi.New(kubeapi.Options{Clock: o.Clock, Seed: o.Seed, Types: o.Types})
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		return nil, err
	}
	c := &Cluster{API: api, o: o, client: client, random: rand.New(rand.NewPCG(o.Seed, 0))}
	if err := c.populate(ctx); err != nil {
		return nil, fmt.Errorf("cluster %q: %w", o.Name, err)
	}
	return c, nil
}

func (c *Cluster) populate(ctx context.Context) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Provisioner: "sim.bourse.dev/disk"}
	if _, err := c.client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	for i := range c.o.Nodes {
		n := c.newNode(i)
		if _, err := c.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return err
		}
		c.nodes = append(c.nodes, &node{name: n.Name, free: size{c.o.CPU * 1000, (c.o.Memory - 1) * 1024, c.o.GPUs}})
	}
	for range c.o.Pods {
		if err := c.startPod(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) newNode(i int) *corev1.Node {
	name := fmt.Sprintf("%s-%03d", c.o.Name, i)
	labels := map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: c.o.Arch,
		corev1.LabelTopologyRegion: c.o.Region, corev1.LabelTopologyZone: fmt.Sprintf("%s-%c", c.o.Region, 'a'+rune(i%3)),
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(c.o.CPU,
			resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(c.o.Memory<<30, resource.BinarySI),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	if c.o.GPUs > 0 {
		labels["nvidia.com/gpu.product"] = c.o.GPU
		labels["nvidia.com/gpu.count"] = fmt.Sprint(c.o.GPUs)
		capacity[gpuResource] = *resource.NewQuantity(c.o.GPUs, resource.DecimalSI)
	}
	allocatable := capacity.DeepCopy()
	// the kubelet keeps some
	allocatable[corev1.ResourceMemory] = *resource.NewQuantity((c.o.Memory-1)<<30, resource.BinarySI)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: allocatable,
			NodeInfo:   corev1.NodeSystemInfo{Architecture: c.o.Arch, OperatingSystem: "linux", KubeletVersion: "v1.35.0"},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}},
		},
	}
}

const gpuResource = corev1.ResourceName("nvidia.com/gpu")

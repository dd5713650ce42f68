// Package inventory measures a cluster: it follows the cluster's nodes, pods and
// storage classes and says, per pool of a SharingPolicy, what there is, what is
// taken and what is lent.
//
// An [Inventory] is made with [New], kept current by [Inventory.Run] and read with
// [Inventory.Measure] whenever [Inventory.Changed] says so:
//
//	watch ──▶ kept ──▶ usage ──▶ Measure
//	          (what little is      (sums per node and owner,
//	           remembered)          always current)
//
// Files: follow.go talks to the API server, kept.go remembers, node.go and pod.go
// say what counts, amount.go calculates, measure.go, room.go and properties.go answer.
//
// It is made for clusters of 30,000 pods and more: objects are reduced to what
// counts before they are stored, an event costs what its pod requests, and a
// measurement costs what the nodes are, never what the pods are. Give it a client that
// speaks protobuf (rest.Config.ContentType): decoding pods is most of what it does.
package inventory

import (
	"context"
	"log/slog"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// Options are what an inventory cannot know by itself. Each has a default.
type Options struct {
	// Owner says who made a pod, in a word that stays the same for the pod's whole life
	// (say, the user of a Liqo slice); "" is this cluster. It is asked once for each
	// change of a pod, from one goroutine at a time. Default: every pod is this cluster's.
	Owner func(pod *metav1.ObjectMeta) string
	// Consumer says in whose account an owner's pods are; "" is in none, so they are
	// allocated like the cluster's own. It is asked anew in each Measure, because what was
	// granted comes and goes while pods stay. Default: an owner is a consumer.
	Consumer func(owner string) string
	// Logger takes problems: what is absurd in an object, watches that break. Default: slog.Default().
	Logger *slog.Logger
}

// Inventory is what is known of a cluster. Its methods may be called from any goroutine.
type Inventory struct {
	client  kubernetes.Interface
	options Options

	changed, useChanged chan struct{}
	synced              chan struct{}

	mu             sync.Mutex
	nodes          *kept[node]
	pods           *kept[pod]
	storageClasses *kept[struct{}]
	unsynced       int                // kinds of which nothing is known yet
	usage          map[string]byOwner // what pods request, by node
	owners         byOwner            // and by who made them
	kubernetes     string             // version of the API server
}

// New makes an inventory of the cluster that client talks to. It is empty until Run has synced.
func New(client kubernetes.Interface, options Options) *Inventory {
	if options.Owner == nil {
		options.Owner = func(*metav1.ObjectMeta) string { return "" }
	}
	if options.Consumer == nil {
		options.Consumer = func(owner string) string { return owner }
	}
	if options.Logger == nil {
		options.Logger = slog.Default()
	}
	i := &Inventory{
		client:   client,
		options:  options,
		changed:  make(chan struct{}, 1),
		synced:   make(chan struct{}),
		unsynced: 3,
		usage:    map[string]byOwner{},
		owners:   byOwner{},

		useChanged: make(chan struct{}, 1),
	}
	i.nodes = keep(i, &corev1.Node{}, nodeOf, i.nodeMoved)
	i.pods = keep(i, &corev1.Pod{}, i.podOf, i.podMoved)
	i.storageClasses = keep(i, &storagev1.StorageClass{},
		func(any) (struct{}, bool) { return struct{}{}, true }, // its name is all
		func(string, *struct{}, *struct{}) {})
	return i
}

// Run follows the cluster until ctx ends; then it returns nil. Trouble with the API server is
// logged and retried for ever: meanwhile the inventory stays as it last was. The client must be
// allowed to list and watch nodes, pods and storage classes.
func (i *Inventory) Run(ctx context.Context) error {
	// What client-go has to say goes to our log too.
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(i.options.Logger.Handler()))
	nodes, pods, classes := i.client.CoreV1().Nodes(), i.client.CoreV1().Pods(""), i.client.StorageV1().StorageClasses()
	var running sync.WaitGroup
	running.Go(func() { follow(ctx, i.client, i.nodes, nodes.List, i.versionThen(nodes.Watch), "") })
	running.Go(func() { follow(ctx, i.client, i.pods, pods.List, pods.Watch, countingPods) })
	running.Go(func() { follow(ctx, i.client, i.storageClasses, classes.List, classes.Watch, "") })
	running.Wait()
	return nil
}

// Synced is closed once nodes, pods and storage classes are known. Measure says nothing before:
// nodes without their pods would look free.
func (i *Inventory) Synced() <-chan struct{} { return i.synced }

// Changed receives when something happened that can change a measurement; what happens before
// it is received is one signal. A heartbeat of a node is no change. It is for one receiver.
func (i *Inventory) Changed() <-chan struct{} { return i.changed }

// UseChanged receives, as Changed does, when [Inventory.Used] changed of any owner.
func (i *Inventory) UseChanged() <-chan struct{} { return i.useChanged }

// signal says that a measurement can have changed.
func (i *Inventory) signal() { nudge(i.changed) }

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

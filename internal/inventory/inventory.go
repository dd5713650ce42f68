// Package inventory measures a cluster. It follows the cluster's nodes, pods and storage classes, and
// computes, per pool of a SharingPolicy, the existing, the used and the shared resources.
//
// An [Inventory] is made with [New], kept current by [Inventory.Run] and read with [Inventory.Measure] after
// each [Inventory.Changed].
//
//	watch ──▶ kept ──▶ usage ──▶ Measure
//	          (what little is      (sums per node and owner,
//	           remembered)          always current)
//
// Files: follow.go watches the API server, kept.go stores reduced objects, node.go and pod.go decide which
// objects count, amount.go calculates, measure.go, shapes.go and properties.go compute results.
//
// It is made for clusters of 30,000 pods and more. Objects are reduced before they are stored. An event
// costs time in proportion to its pod's requests, and a measurement in proportion to the nodes. Give it a
// client that speaks protobuf (rest.Config.ContentType), because decoding pods takes most of its time.
package inventory

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// Options depend on the agent. Each has a default.
type Options struct {
	// Owner returns the creator of a pod as a name that does not change during the pod's life, such
	// as the user of a Liqo slice; "" is this cluster. It is called once per change of a pod, from
	// one goroutine at a time. Default: every pod belongs to this cluster.
	Owner func(pod *metav1.ObjectMeta) string
	// Consumer returns the consumer to whose account an owner's pods belong; "" is none, so they are
	// allocated like the cluster's own. Each Measure calls it again, because grants change while pods stay.
	// Default: an owner is a consumer.
	Consumer func(owner string) string
	// User returns the owner of the pods of a consumer's slice. Default: the slice's name.
	User func(slice, consumer string) string
	// Logger receives problems: impossible values in objects, broken watches. Default: slog.Default().
	Logger *slog.Logger
}

// Inventory is the known state of a cluster. Any goroutine may call its methods.
type Inventory struct {
	client  kubernetes.Interface
	options Options

	changed, useChanged, podsMoved chan struct{}
	synced                         chan struct{}

	mu             sync.Mutex
	nodes          *kept[node]
	pods           *kept[pod]
	storageClasses *kept[struct{}]
	unsynced       int                // kinds without a complete list
	usage          map[string]byOwner // what pods request, by node
	owners         byOwner            // and by owner
	moved          map[string]bool    // owners whose pods changed since ChangedOwners was called
	kubernetes     string             // version of the API server
}

// New makes an inventory of client's cluster. It is empty until Run has synced.
func New(client kubernetes.Interface, options Options) *Inventory {
	if options.Owner == nil {
		options.Owner = func(*metav1.ObjectMeta) string { return "" }
	}
	if options.Consumer == nil {
		options.Consumer = func(owner string) string { return owner }
	}
	if options.User == nil {
		options.User = func(slice, _ string) string { return slice }
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
		moved:    map[string]bool{},

		useChanged: make(chan struct{}, 1),
		podsMoved:  make(chan struct{}, 1),
	}
	i.nodes = keep(i, &corev1.Node{}, nodeOf, i.nodeMoved)
	i.pods = keep(i, &corev1.Pod{}, i.podOf, i.podMoved)
	i.storageClasses = keep(i, &storagev1.StorageClass{},
		func(any) (struct{}, bool) { return struct{}{}, true }, // only its name is kept
		func(string, *struct{}, *struct{}) {})
	return i
}

// Run follows the cluster until ctx ends, and then returns nil. It logs errors of the API server and retries
// without end; until then the inventory stays as it is. The client needs list and watch on nodes, pods and
// storage classes.
func (i *Inventory) Run(ctx context.Context) error {
	// Messages of client-go go to our log too.
	ctx = klog.NewContext(ctx, logr.FromSlogHandler(i.options.Logger.Handler()))
	nodes, pods, classes := i.client.CoreV1().Nodes(), i.client.CoreV1().Pods(""), i.client.StorageV1().StorageClasses()
	var running sync.WaitGroup
	running.Go(func() { follow(ctx, i.client, i.nodes, nodes.List, i.versionThen(nodes.Watch), "") })
	running.Go(func() { follow(ctx, i.client, i.pods, pods.List, pods.Watch, countingPods) })
	running.Go(func() { follow(ctx, i.client, i.storageClasses, classes.List, classes.Watch, "") })
	running.Wait()
	return nil
}

// Synced is closed once nodes, pods and storage classes are known. Before that, Measure returns nothing,
// because nodes without their pods would look free.
func (i *Inventory) Synced() <-chan struct{} { return i.synced }

// Changed receives a signal after events that can change a measurement. Several events before it is received
// are one signal. A node's heartbeat is no such event. It is for one receiver.
func (i *Inventory) Changed() <-chan struct{} { return i.changed }

// UseChanged works like Changed, for changes of [Inventory.Used] of any owner.
func (i *Inventory) UseChanged() <-chan struct{} { return i.useChanged }

// PodsMoved works like Changed, for pods that come to a node, leave it, or change what they request.
func (i *Inventory) PodsMoved() <-chan struct{} { return i.podsMoved }

// ChangedOwners returns the owners whose pods came or went since it was last called, also if their sums are as before.
func (i *Inventory) ChangedOwners() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := slices.Sorted(maps.Keys(i.moved))
	clear(i.moved)
	return all
}

// signal sends a signal that a measurement may have changed.
func (i *Inventory) signal() { sendSignal(i.changed) }

func sendSignal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

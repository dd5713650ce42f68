package scheme

import (
	"log/slog"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// NewManager returns the manager of an agent's controllers, which caches objects of these kinds. It
// caches the agent's own objects in the agent's namespace only, and of all nodes only the virtual
// ones. It caches no managedFields, which nothing reads and which can have 0.7 MB. With leaderElect, one of several replicas leads. The manager serves neither metrics nor
// probes. Its recorders send Events that an API server takes.
func NewManager(c *rest.Config, namespace string, leaderElect bool, log *slog.Logger) (ctrl.Manager, error) {
	own := cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
	m, err := ctrl.NewManager(c, ctrl.Options{
		Scheme: New(), Logger: logr.FromSlogHandler(kubeobject.QuietLog(log.Handler())),
		Metrics:                       metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:        "0",
		LeaderElection:                leaderElect,
		LeaderElectionID:              "bourse-agent",
		LeaderElectionNamespace:       namespace,
		LeaderElectionReleaseOnCancel: true,
		Controller:                    Controllers(),
		Cache: cache.Options{DefaultTransform: cache.TransformStripManagedFields(), ByObject: map[client.Object]cache.ByObject{
			&api.ProviderInstruction{}: own, &api.Advertisement{}: own, &api.Peer{}: own, &api.Peering{}: own,
			&api.Broker{}: own, &api.Offer{}: own,
			&corev1.Node{}: {Label: labels.SelectorFromSet(liqo.VirtualNodes())}, // the inventory watches the others
		}},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&api.Ledger{}, &corev1.Secret{}}}},
	})
	return recordingManager{m}, err
}

// Controllers returns how the agent's controllers run. Several may have one name, as the demo has
// several agents in one process. Their queues know no priorities: the priority queue of
// controller-runtime v0.23 may lock a worker for good when it shuts down. It then waits for a reader
// that has gone, and holds the lock that the worker needs (mended in v0.25.2).
func Controllers() config.Controller {
	yes, no := true, false
	return config.Controller{SkipNameValidation: &yes, UsePriorityQueue: &no}
}

// recordingManager cuts the notes of Events.
type recordingManager struct{ ctrl.Manager }

func (m recordingManager) GetEventRecorder(name string) events.EventRecorder {
	return kubeobject.CutNotes(m.Manager.GetEventRecorder(name))
}

// NewClientset returns a client for objects that an agent reads in bulk, pods and nodes. It asks
// for them in the encoding that costs least.
func NewClientset(c *rest.Config) (kubernetes.Interface, error) {
	c = rest.CopyConfig(c)
	c.ContentType = runtime.ContentTypeProtobuf
	return kubernetes.NewForConfig(c)
}

package posture

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// ConsumerList is the ConfigMap with the policies' parameters, which only the agent writes. Empty, it would let
// every consumer do anything, and without it nobody could write what the policies look at. So the agent makes it
// before it is ready, and [ConsumerList.Run] writes it again when another changed or removed it.
type ConsumerList struct {
	// Reader reads from the API server.
	Reader client.Reader
	client.Writer
	Namespace string
	// Watched are the ConfigMaps of Namespace. Events tells who changed the list. Both are for Run only.
	Watched typedcorev1.ConfigMapInterface
	Events  events.EventRecorder
	Log     *slog.Logger

	mu   sync.Mutex
	kept map[string]string // what the agent last wrote; nil: it has not looked yet
}

// keepAgain is how long Run waits after an error, and after a watch that ended.
const keepAgain = time.Second

// Make makes the list, if there is none, and lists the consumers that have a peering by Bourse and are not in it.
// Of these the peerings say more later; until then the policies let them do less. Errors: the API server's.
func (l *ConsumerList) Make(ctx context.Context) error {
	var tenants authv1beta1.TenantList
	if err := l.Reader.List(ctx, &tenants); err != nil && !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) {
		return err
	}
	var known, unlisted int // consumers
	oldest := metav1.Now()
	err := l.change(ctx, func(data map[string]string) {
		known, unlisted = 0, 0
		for i := range tenants.Items {
			consumer := string(tenants.Items[i].Spec.ClusterID)
			if !liqo.IsOurs(&tenants.Items[i]) || consumer == "" {
				continue
			}
			if known++; tenants.Items[i].CreationTimestamp.Before(&oldest) {
				oldest = tenants.Items[i].CreationTimestamp
			}
			if data[consumer] == "" {
				data[consumer], unlisted = brokered, unlisted+1
			}
		}
	})
	if err == nil && known > 0 && known == unlisted {
		l.tellGone(ctx, known, oldest)
	}
	return err
}

// tellGone tells that the list had none of the consumers that have peerings, and why, as far as one can see.
func (l *ConsumerList) tellGone(ctx context.Context, known int, oldest metav1.Time) {
	m := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: consumers}}
	_ = l.Reader.Get(ctx, client.ObjectKeyFromObject(&m), &m) // for the Event, which needs its UID
	why := "it was removed or emptied while no agent ran, with policy bourse-guard or its binding away"
	var namespaces corev1.NamespaceList
	err := l.Reader.List(ctx, &namespaces, client.MatchingFields{"metadata.name": l.Namespace})
	if err == nil && len(namespaces.Items) == 1 && oldest.Before(&namespaces.Items[0].CreationTimestamp) {
		why = "namespace " + l.Namespace + " was deleted, and made again " +
			namespaces.Items[0].CreationTimestamp.UTC().Format(time.RFC3339)
	}
	l.tell(&m, fmt.Sprintf("none of the %d consumers that have peerings was listed: %s", known, why))
}

// tell tells in the log and in an Event that the list is written again.
func (l *ConsumerList) tell(m *corev1.ConfigMap, why string) {
	l.Log.Warn("the list of brokered consumers is written again", "configmap", consumers, "cause", why)
	if l.Events != nil {
		l.Events.Eventf(m, nil, corev1.EventTypeWarning, "WrittenAgain", "Restore",
			"the list of brokered consumers is written again: %s; upgrade bourse-base, or apply config/liqo: its policy bourse-guard "+
				"lets nobody else write the list", why)
	}
}

// Run writes the list again as soon as another changed or removed it, until ctx ends. In a namespace that is being
// deleted nobody can make it.
func (l *ConsumerList) Run(ctx context.Context) error {
	for {
		err := l.follow(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !IsImpossible(err) {
			l.Log.Warn("the list of brokered consumers is not kept", "error", err)
		}
		select {
		case <-time.After(keepAgain):
		case <-ctx.Done():
			return nil
		}
	}
}

// follow makes the list and watches it until the watch ends.
func (l *ConsumerList) follow(ctx context.Context) error {
	return kubeobject.Follow(ctx, func() (watch.Interface, error) {
		return l.Watched.Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", consumers).String()})
	}, l.Make, func(e watch.Event) error {
		m, ok := e.Object.(*corev1.ConfigMap)
		if !ok || m.Name != consumers || e.Type != watch.Deleted && l.isCurrent(m.Data) {
			return nil
		}
		return l.restore(ctx, m, e.Type == watch.Deleted)
	})
}

func (l *ConsumerList) isCurrent(data map[string]string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return equality.Semantic.DeepEqual(data, l.kept)
}

// restore writes what another changed or removed. An event may be older than what the agent wrote meanwhile: then
// nothing is to be written.
func (l *ConsumerList) restore(ctx context.Context, m *corev1.ConfigMap, gone bool) error {
	var now corev1.ConfigMap
	err := l.Reader.Get(ctx, client.ObjectKeyFromObject(m), &now)
	if err == nil && l.isCurrent(now.Data) {
		return nil
	}
	what := "another account changed it: " + lastManager(&now)
	if gone || apierrors.IsNotFound(err) {
		what = "it was removed"
	}
	if err := l.change(ctx, func(map[string]string) {}); err != nil {
		return err
	}
	l.tell(m, what)
	return nil
}

// lastManager names who last wrote an object, as its managed fields say.
func lastManager(o client.Object) string {
	name, last := "unknown", time.Time{}
	for _, f := range o.GetManagedFields() {
		if f.Time != nil && !f.Time.Time.Before(last) {
			name, last = f.Manager, f.Time.Time
		}
	}
	return api.CutText(name, 128)
}

// change changes the list that the agent keeps, and writes it. Errors: Unavailable where the list must be there, and
// is not; CapReached; the API server's.
func (l *ConsumerList) change(ctx context.Context, change func(map[string]string)) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: consumers}}
	err := l.Reader.Get(ctx, client.ObjectKeyFromObject(&m), &m)
	create := apierrors.IsNotFound(err) && l.Watched != nil
	if err != nil && !create {
		return missing("parameter", consumers, err)
	}
	before := m.DeepCopy()
	if l.kept != nil {
		m.Data = maps.Clone(l.kept)
	}
	if m.Data == nil {
		m.Data = map[string]string{}
	}
	size := sizeOf(m.Data)
	change(m.Data)
	listOthers(m.Data)
	if now := sizeOf(m.Data); now > MaxList && now > size {
		return api.Errorf(api.CodeCapReached,
			"ConfigMap %s, which lists the brokered consumers, would take %d bytes of at most %d", consumers, now, MaxList).
			Fix("lend to fewer clusters, or in fewer pools; close peerings that are not needed: kubectl -n %s get peerings",
				l.Namespace)
	}
	data := maps.Clone(m.Data)
	switch {
	case create:
		m.ResourceVersion, m.UID = "", ""
		err = l.Create(ctx, &m)
	case !equality.Semantic.DeepEqual(before.Data, m.Data):
		err = l.Patch(ctx, &m, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err == nil && l.Watched != nil {
		l.kept = data
	}
	return err
}

// IsImpossible reports whether an error of Make says that the agent cannot make the list now: it has no right to,
// because this cluster has no config/liqo, or its namespace is being deleted or not there.
func IsImpossible(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

package proposals

import (
	"context"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// standing has the proposals of this cluster that stand. Its zero value is ready. Several goroutines may use it.
type standing struct {
	mu sync.Mutex
	// namespaces have when each expires, by name. A namespace is listed once: what is signed later is added.
	namespaces map[string]map[string]time.Time
}

// add notes a proposal that is signed now and stands until a time. In a namespace that has maxStanding others it returns
// when the first of them expires. list returns those that the namespace has. Errors: those of list.
func (s *standing) add(name types.NamespacedName, until, now time.Time,
	list func() (map[string]time.Time, error)) (full time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, known := s.namespaces[name.Namespace]
	if !known {
		if all, err = list(); err != nil {
			return full, err
		}
		if s.namespaces == nil {
			s.namespaces = map[string]map[string]time.Time{}
		}
		s.namespaces[name.Namespace] = all
	}
	maps.DeleteFunc(all, func(_ string, ends time.Time) bool { return !now.Before(ends) })
	if _, again := all[name.Name]; !again && len(all) >= maxStanding {
		for _, ends := range all {
			if full.IsZero() || ends.Before(full) {
				full = ends
			}
		}
		return full, nil
	}
	all[name.Name] = until
	return full, nil
}

// remove forgets a proposal whose object is gone.
func (s *standing) remove(name types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.namespaces[name.Namespace], name.Name)
}

// listStanding returns when each proposal of a namespace that was signed expires.
func (p *Proposals) listStanding(ctx context.Context, namespace string) (map[string]time.Time, error) {
	var all api.ProposalList
	err := p.Client.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
	ends := map[string]time.Time{}
	for i := range all.Items {
		if o := &all.Items[i]; o.Spec.Buyer == "" && o.Status.Expires != nil {
			ends[o.Name] = o.Status.Expires.Time
		}
	}
	return ends, kubeobject.Error(err)
}

package questions

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bourse-dev/bourse/internal/server"
)

// mostPerNamespace is how many sessions of a namespace are served. ClusterSessions count as those of one namespace.
const mostPerNamespace = 100

// session is a Session or, without a namespace in its name, a ClusterSession.
type session struct {
	name    types.NamespacedName
	uid     types.UID
	key     string // the hash of its user's key
	expires time.Time
	used    time.Time // or when it began
}

// asker is who asks by one key: all of its sessions.
type asker struct {
	scope server.Scope
	uids  []types.UID
}

// found reports whether any session of the key is served.
func (a asker) found() bool { return len(a.uids) > 0 }

// book has the sessions that are served. Several goroutines may use it.
type book struct {
	mu     sync.Mutex
	all    map[types.NamespacedName]*session
	keys   map[string]map[*session]bool
	spaces map[string]map[*session]bool // by namespace
	// ended are those that had no room: they are not served again until their objects are gone.
	ended map[types.NamespacedName]types.UID
}

func newBook() *book {
	return &book{all: map[types.NamespacedName]*session{}, keys: map[string]map[*session]bool{},
		spaces: map[string]map[*session]bool{}, ended: map[types.NamespacedName]types.UID{}}
}

// put serves a session from now on. In a namespace with too many, those that were not used for longest are served no
// more: put returns them.
func (b *book) put(name types.NamespacedName, s session) (ended []session) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended[name] == s.uid {
		return nil
	}
	if known := b.all[name]; known != nil {
		if known.uid == s.uid {
			known.expires = s.expires
			return nil
		}
		b.drop(known)
	}
	for len(b.spaces[name.Namespace]) >= mostPerNamespace {
		oldest := b.oldest(name.Namespace)
		b.drop(oldest)
		b.ended[oldest.name] = oldest.uid
		ended = append(ended, *oldest)
	}
	s.name, s.used = name, s.expires.Add(-Lasts)
	b.all[name] = &s
	add(b.keys, s.key, &s)
	add(b.spaces, name.Namespace, &s)
	return ended
}

// oldest returns the session of a namespace that was not used for longest. The lock is held.
func (b *book) oldest(namespace string) (found *session) {
	for s := range b.spaces[namespace] {
		if found == nil || cmp.Or(s.used.Compare(found.used), cmp.Compare(s.name.Name, found.name.Name)) < 0 {
			found = s
		}
	}
	return found
}

func add(to map[string]map[*session]bool, key string, s *session) {
	if to[key] == nil {
		to[key] = map[*session]bool{}
	}
	to[key][s] = true
}

// end serves a session no more, whose object is gone.
func (b *book) end(name types.NamespacedName) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.ended, name)
	if s := b.all[name]; s != nil {
		b.drop(s)
	}
}

// drop removes a session. The lock is held.
func (b *book) drop(s *session) {
	delete(b.all, s.name)
	remove(b.keys, s.key, s)
	remove(b.spaces, s.name.Namespace, s)
}

func remove(from map[string]map[*session]bool, key string, s *session) {
	if delete(from[key], s); len(from[key]) == 0 {
		delete(from, key)
	}
}

// use returns who asks by a key, and notes that its sessions were used.
func (b *book) use(key string, now time.Time) (a asker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for s := range b.keys[key] {
		if !now.Before(s.expires) {
			continue
		}
		s.used = now
		a.uids = append(a.uids, s.uid)
		if s.name.Namespace == "" {
			a.scope.Cluster = true
		} else if !slices.Contains(a.scope.Namespaces, s.name.Namespace) {
			a.scope.Namespaces = append(a.scope.Namespaces, s.name.Namespace)
		}
	}
	slices.Sort(a.scope.Namespaces)
	slices.Sort(a.uids)
	return a
}

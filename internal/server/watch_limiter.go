package server

import (
	"slices"
	"sync"

	"github.com/bourse-dev/bourse/internal/exchange"
)

// watchLimiter bounds the open watches of each cluster. The zero value is ready.
type watchLimiter struct {
	mu   sync.Mutex
	open map[string][]*exchange.Watch // by cluster, oldest first
}

// add counts a watch of a cluster until it is removed. If the cluster has more than most, its oldest
// one ends: a cluster whose connections broke without notice reads the newest.
func (l *watchLimiter) add(cluster string, w *exchange.Watch, most int) (remove func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string][]*exchange.Watch{}
	}
	open := append(l.open[cluster], w)
	if len(open) > most {
		refused("watches")
		open[0].GiveWay()
		open = slices.Delete(open, 0, 1)
	}
	l.open[cluster] = open
	openWatches.Add(1)
	return func() { l.remove(cluster, w) }
}

func (l *watchLimiter) remove(cluster string, w *exchange.Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	openWatches.Add(-1)
	open := slices.DeleteFunc(l.open[cluster],
		func(other *exchange.Watch) bool { return other == w })
	if l.open[cluster] = open; len(open) == 0 {
		delete(l.open, cluster)
	}
}

// wake lets the watches of a cluster send what is new, and a bookmark.
func (l *watchLimiter) wake(cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, w := range l.open[cluster] {
		w.Wake()
	}
}

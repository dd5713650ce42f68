package robustness

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// watcher follows the reservations of a member through all lives of its broker, by one watch after another.
type watcher struct {
	t *testing.T

	mu      sync.Mutex
	picture map[string]client.Reservation
	token   string
	whole   int     // how many watches began with everything
	ended   []error // of each watch that ended
}

func follow(t *testing.T, m *member.Member) *watcher {
	w := &watcher{t: t, picture: map[string]client.Reservation{}}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			w.mu.Lock()
			token := w.token
			w.mu.Unlock()
			err := m.Watch(ctx, token, w.take)
			w.mu.Lock()
			w.ended = append(w.ended, err)
			w.mu.Unlock()
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	return w
}

func (w *watcher) take(e api.WatchEvent) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch e.Type {
	case api.WatchSnapshot:
		if e.Complete {
			w.whole++
		}
	case api.WatchReservation:
		w.picture[e.Object.ID] = *e.Object
	case api.WatchBookmark:
		w.token = e.Token
	}
	return nil
}

// begins waits until the watch shows what there is, and can be resumed. Before, its end would be a call that
// failed, and the next one would begin with everything again.
func (w *watcher) begins() {
	w.t.Helper()
	eventually(w.t, "the watch begins", func(context.Context) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.whole > 0 && w.token != ""
	})
}

// sees waits until the picture is what it must be.
func (w *watcher) sees(want map[string]client.Reservation) {
	w.t.Helper()
	eventually(w.t, "the watch, resumed in each life of the broker, shows all that there is", func(context.Context) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for id, r := range want {
			if w.picture[id].Revision != r.Revision || w.picture[id].Payload.State != r.Payload.State {
				return false
			}
		}
		return len(w.picture) == len(want)
	})
	if w.whole != 1 {
		w.t.Errorf("%d watches began with a whole snapshot, want only the first", w.whole)
	}
}

// hears waits until a watch ended with a code, and says whether the broker had said so in an END event.
func (w *watcher) hears(code api.Code) (announced bool) {
	w.t.Helper()
	eventually(w.t, "a watch ends with "+string(code), func(context.Context) bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, err := range w.ended {
			if api.CodeOf(err) == code {
				e, ours := errors.AsType[*api.Error](err)
				announced = ours && strings.Contains(e.Remedy, "watch again")
				return true
			}
		}
		return false
	})
	return announced
}

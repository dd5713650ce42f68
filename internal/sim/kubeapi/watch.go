package kubeapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sort"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watcher is one watch that runs. It holds no events: it remembers how far it
// has come and reads on in the table's past, so that a slow one costs nothing
// and is sent away with 410 when it has fallen out of that past.
type watcher struct {
	*request
	*selection
	out   http.ResponseWriter
	next  uint64 // all events up to here were considered
	quiet int    // events considered since something was last sent
}

// watch streams events until the client goes, its time is over, or the server
// disconnects it. Errors from here on are events, as on a real server: it
// returns one only while nothing was sent.
func (a *API) watch(w http.ResponseWriter, r *http.Request, q *request) error {
	s, err := q.selection()
	if err != nil {
		return err
	}
	ctx := r.Context()
	if s.TimeoutSeconds != nil && *s.TimeoutSeconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*s.TimeoutSeconds)*time.Second)
		defer cancel()
	}

	a.mu.Lock()
	down, cut, current := a.down, a.cut, a.revision
	initial := s.SendInitialEvents != nil && *s.SendInitialEvents
	var found []*object
	if initial {
		found = q.table.matching(s.matches)
	}
	a.mu.Unlock()
	if down { // since it was looked at: nothing would cut it any more
		panic(http.ErrAbortHandler)
	}

	t := &watcher{request: q, selection: s, out: w, next: s.revision}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	for _, o := range found {
		t.send(watch.Added, t.show(o))
	}
	if initial || s.revision == 0 {
		t.next = current
	}
	if initial && s.AllowWatchBookmarks {
		t.sendBookmark(`,"annotations":{"` + metav1.InitialEventsAnnotationKey + `":"true"}`)
	}
	a.follow(ctx, cut, t)
	return nil
}

// follow sends what happens from now on.
func (a *API) follow(ctx context.Context, cut <-chan struct{}, t *watcher) {
	for {
		events, changed, err := a.since(t.table, t.next)
		if err != nil {
			t.sendError(err)
			return
		}
		for _, e := range events {
			t.consider(e)
		}
		// A watch whose selector lets little through would be too old when it
		// resumes: bookmarks keep it young.
		if t.AllowWatchBookmarks && t.quiet > a.history/4 {
			t.sendBookmark("")
		}
		t.out.(http.Flusher).Flush()
		select {
		case <-changed:
		case <-ctx.Done():
			return
		case <-cut:
			return
		}
	}
}

// since returns the table's events after a revision, and what is closed at the
// next one.
func (a *API) since(t *table, revision uint64) ([]event, <-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if revision < t.floor {
		return nil, nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, t.floor))
	}
	first := sort.Search(len(t.past), func(i int) bool { return t.past[i].after.revision > revision })
	return append([]event(nil), t.past[first:]...), t.changed, nil
}

// consider sends an event as it looks through the selection: an object that
// comes to match is new to the client, one that no longer does is gone.
func (t *watcher) consider(e event) {
	t.next = e.after.revision
	t.quiet++
	matched := t.matches(e.before)
	matches := e.kind != watch.Deleted && t.matches(e.after)
	switch {
	case matches && matched:
		t.send(watch.Modified, t.show(e.after))
	case matches:
		t.send(watch.Added, t.show(e.after))
	case matched && e.kind == watch.Deleted:
		t.send(watch.Deleted, t.show(e.after))
	case matched:
		// As the client knew it, at the revision at which it went.
		last := *e.before
		u := last.decoded()
		u.SetResourceVersion(strconv.FormatUint(t.next, 10))
		last.raw = marshal(u.Object)
		t.send(watch.Deleted, t.show(&last))
	}
}

func (t *watcher) send(kind watch.EventType, raw json.RawMessage) {
	t.quiet = 0
	if t.form == asTable && kind != watch.Bookmark {
		t.form = unheading
	}
	// A broken connection shows by its context, not here.
	_, _ = fmt.Fprintf(t.out, `{"type":"%s","object":%s}`+"\n", kind, raw)
}

func (t *watcher) sendBookmark(more string) {
	t.send(watch.Bookmark, fmt.Appendf(nil, `{"kind":"%s","apiVersion":"%s","metadata":{"resourceVersion":"%d"%s}}`,
		t.shownAs().Kind, t.shownAs().GroupVersion, t.next, more))
}

func (t *watcher) sendError(err error) {
	_, _ = fmt.Fprintf(t.out, `{"type":"ERROR","object":%s}`+"\n", marshal(statusOf(err)))
}

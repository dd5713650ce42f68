package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// answerTo serves one answer over HTTP/2, which write writes. The reader may take as long as slow
// for each piece.
func answerTo(t *testing.T, slow time.Duration, write func(eventWriter)) *http.Response {
	t.Helper()
	written := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer close(written)
		write(newEventWriter(r.Context(), w, slow))
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		<-written
		s.Close()
	})
	answer, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { answer.Body.Close() })
	if answer.ProtoMajor != 2 {
		t.Fatalf("it is answered by %s", answer.Proto)
	}
	return answer
}

// long is an event of many times the bytes that are held.
var long = api.WatchEvent{Type: api.WatchBookmark, Token: strings.Repeat("a", 7*mostHeld)}

func bookmarks(made *int) func(*events) {
	return func(e *events) {
		for ; *made < 10_000 && e.err == nil; *made++ {
			e.add(api.WatchEvent{Type: api.WatchBookmark, Token: strings.Repeat("a", 1000)})
		}
		e.add(long)
	}
}

// A reader that reads gets everything, however long it is, and also after nothing was sent for
// longer than a reader may be slow.
func TestALongWatchIsReadWhole(t *testing.T) {
	t.Parallel()
	const slow = 5 * time.Second // a machine with few cores may stop a reader that reads for a second
	answer := answerTo(t, slow, func(w eventWriter) {
		for i := range 2 {
			if i > 0 {
				time.Sleep(slow + slow/10)
			}
			made := 0
			if err := w.send(bookmarks(&made)); err != nil {
				t.Error(err)
			}
		}
	})
	data, err := io.ReadAll(answer.Body)
	lines := strings.Split(string(data), "\n")
	if err != nil || len(lines) != 2*(10_000+1)+1 || len(lines[10_000]) < 7*mostHeld {
		t.Errorf("%d lines are read, %v", len(lines), err)
	}
}

// A reader that does not read ends its watch, though its connection is well: over HTTP/2 other
// answers go on. No more events are made than the reader and the machines between may hold.
func TestAWatchThatIsNotReadEnds(t *testing.T) {
	made, ended := 0, make(chan error, 1)
	answerTo(t, 300*time.Millisecond, func(w eventWriter) { ended <- w.send(bookmarks(&made)) })
	select {
	case err := <-ended:
		// The deadline also ends the context: a writer that is between two writes then sees that first.
		if !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the watch waits for a reader that does not read")
	}
	if made >= 10_000 {
		t.Errorf("%d events are made, and none is read", made)
	}
}

// A watch whose context has ended writes nothing more, in the middle of what it has to tell, too.
func TestAWatchThatEndedWritesNoMore(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	recorder := httptest.NewRecorder()
	w := newEventWriter(ctx, deadlines{recorder}, time.Minute)
	err := w.send(func(e *events) {
		e.add(long)
		written := recorder.Body.Len()
		cancel()
		e.add(long)
		if written == 0 || recorder.Body.Len() > written {
			t.Errorf("%d bytes are written, %d of them before it ended", recorder.Body.Len(), written)
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// deadlines is an answer that may take as long as it takes.
type deadlines struct{ *httptest.ResponseRecorder }

func (deadlines) SetWriteDeadline(time.Time) error { return nil }

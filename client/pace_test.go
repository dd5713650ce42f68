package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// endless answers each call with the same event again and again, until nobody reads it any more.
type endless struct {
	event string
	at    int
}

func (e *endless) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(e)}, nil
}

func (e *endless) Read(into []byte) (n int, err error) {
	for n < len(into) {
		copied := copy(into[n:], e.event[e.at:])
		n, e.at = n+copied, (e.at+copied)%len(e.event)
	}
	return n, nil
}

// However small or large its events are, and however often it begins, a watch costs what its pace allows.
func TestWatchesHaveAPace(t *testing.T) {
	const burst, perSecond, lasts = 1 << 20, 64 << 10, 100
	for name, event := range map[string]string{
		"small": `{"type":"BOOKMARK","token":"a.1"}`,
		"wide": `{"type":"RESERVATION","object":{"id":"r","payload":{"resources":{` +
			strings.Repeat(`"a":"1",`, 2_000) + `"cpu":"1"}}}}`,
		"long": fmt.Sprintf(`{"type":"HANDSHAKE","document":%q}`, strings.Repeat("d", 1<<20)),
	} {
		synctest.Test(t, func(t *testing.T) {
			c := client.New("https://broker.example", &http.Client{Transport: &endless{event: event + "\n"}}).
				WithPace(burst, perSecond)
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(lasts*time.Second, cancel).Stop()
			events, bytes, most := 0, 0, burst+perSecond*lasts
			for ctx.Err() == nil && bytes <= most && events<<10 <= most {
				_ = c.Watch(ctx, "", func(api.WatchEvent) error {
					if events, bytes = events+1, bytes+len(event); events%10 == 0 {
						return errors.New("again")
					}
					return nil
				})
			}
			if events == 0 || bytes > most || events<<10 > most {
				t.Errorf("%s: %d events with %d bytes in %d s", name, events, bytes, lasts)
			}
		})
	}
}

// What is within the burst does not wait, and what is beyond it waits without an end of the watch.
func TestAPaceDelaysOnlyWhatIsBeyondTheBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := fmt.Sprintf(`{"type":"HANDSHAKE","document":%q}`, strings.Repeat("d", 100_000))
		c := client.New("https://broker.example", &http.Client{Transport: &endless{event: event + "\n"}}).
			WithPace(1<<20, 1_000)
		begin, done := time.Now(), errors.New("enough")
		events, within := 0, 0
		err := c.Watch(t.Context(), "", func(api.WatchEvent) error {
			if events++; time.Since(begin) == 0 {
				within++
			}
			if events == 12 {
				return done
			}
			return nil
		})
		if !errors.Is(err, done) || within != 10 {
			t.Errorf("%d of %d events came at once: %v", within, events, err)
		}
	})
}

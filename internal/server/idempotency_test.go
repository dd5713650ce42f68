package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// lossy loses the answers of calls that its test chooses. The calls are carried out.
type lossy struct {
	http.RoundTripper
	lose bool
}

var errLost = errors.New("the connection broke")

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := l.RoundTripper.RoundTrip(r)
	if err == nil && l.lose {
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		return nil, errLost
	}
	return answer, err
}

func TestRetryAfterALost201(t *testing.T) {
	ctx := context.Background()
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	f.Join("milan").Advertise("8")
	line := &lossy{rome.HTTP.Transport, true}
	c := client.New(f.URL, &http.Client{Transport: line})
	if _, err := c.Reserve(ctx, "key", transporttest.Request("5")); api.CodeOf(err) != api.CodeUnavailable {
		t.Fatalf("the answer was lost: %v", err)
	}
	line.lose = false
	first, err := c.Reserve(ctx, "key", transporttest.Request("5"))
	if err != nil || first.Payload.State != api.Held {
		t.Fatalf("%s, %v", first.Payload.State, err)
	}
	again, err := c.Reserve(ctx, "key", transporttest.Request("5"))
	if diff := cmp.Diff(first, again); err != nil || diff != "" {
		t.Errorf("the third answer differs (%v): %s", err, diff)
	}
	if all, err := c.Reservations(ctx); err != nil || len(all) != 1 {
		t.Errorf("%d reservations, %v", len(all), err)
	}
	if left := available(t, rome, "milan"); left != "3" {
		t.Errorf("%s of 8 are left after one reservation of 5", left)
	}
	same := transporttest.Request("5000m") // another spelling of the same
	if r, err := c.Reserve(ctx, "key", same); err != nil || r.ID != first.ID {
		t.Errorf("%s, %v", r.ID, err)
	}
	var e *api.Error
	if _, err := c.Reserve(ctx, "key", transporttest.Request("1")); !errors.As(err, &e) ||
		e.Code != api.CodeKeyReused || e.Field != "Idempotency-Key" {
		t.Errorf("the key with another request: %v", err)
	}
	oslo := f.Join("oslo")
	if r, err := oslo.Reserve(ctx, "key", transporttest.Request("1")); err != nil || r.ID == first.ID {
		t.Errorf("the same key of another cluster: %s, %v", r.ID, err)
	}
}

// Every later step may be repeated after a lost answer, too.
func TestEachStepCanBeRepeated(t *testing.T) {
	ctx := context.Background()
	// Time stands still: each second the broker records which clusters are there, which is a revision, too.
	f := servertest.Start(t, servertest.Options{Clock: transporttest.NewClock()})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("8")
	r, err := rome.Reserve(ctx, "key", transporttest.Request("1"))
	if err != nil {
		t.Fatal(err)
	}
	assignment := rome.Assign(r)
	var acceptance, end string
	for _, step := range []struct {
		name string
		do   func() (client.Reservation, error)
		want api.State
	}{
		{"confirm", func() (client.Reservation, error) { return rome.Confirm(ctx, r.ID, assignment) }, api.Held},
		{"accept", func() (client.Reservation, error) {
			if acceptance == "" {
				acceptance = milan.Agree(r)
			}
			return milan.Accept(ctx, r.ID, acceptance)
		}, api.Reserved},
		{"activate", func() (client.Reservation, error) { return rome.Progress(ctx, r.ID, api.Active) }, api.Active},
		{"release", func() (client.Reservation, error) {
			if end == "" {
				end = rome.End(r, api.ReasonReleased)
			}
			return rome.Release(ctx, r.ID, end)
		}, api.Releasing},
		{"free", func() (client.Reservation, error) { return milan.Progress(ctx, r.ID, api.Released) }, api.Released},
	} {
		before := revision(t, f)
		once, err := step.do()
		if err != nil || once.Payload.State != step.want || once.Revision <= before {
			t.Fatalf("%s: %s at %d, %v", step.name, once.Payload.State, once.Revision, err)
		}
		again, err := step.do()
		if diff := cmp.Diff(once, again); err != nil || diff != "" {
			t.Errorf("%s, again (%v): %s", step.name, err, diff)
		}
		if now := revision(t, f); now != once.Revision {
			t.Errorf("%s: the repeat made revision %d of %d", step.name, now, once.Revision)
		}
		r = again
	}
}

// A call with If-Match is carried out only while the reservation is as its ETag says.
func TestIfMatch(t *testing.T) {
	w := newFixture(t)
	read := func() (etag string, r client.Reservation) {
		status, header, body := w.call(t, call{by: w.rome.HTTP, method: "GET", path: "/reservations/" + w.bound.ID})
		if status != http.StatusOK || json.Unmarshal(body, &r) != nil {
			t.Fatalf("%d: %s", status, body)
		}
		return header.Get("ETag"), r
	}
	activate := func(etag string) (int, http.Header) {
		status, header, _ := w.call(t, call{by: w.rome.HTTP, method: "POST",
			path: "/reservations/" + w.bound.ID + "/progress",
			body: `{"state":"Active"}`, header: map[string]string{"If-Match": etag}})
		return status, header
	}
	old, r := read()
	if want := `"` + strings.TrimSpace(jsonNumber(r.Revision)) + `"`; old != want {
		t.Errorf("ETag %s, want %s", old, want)
	}
	status, header := activate(old)
	if status != http.StatusOK || header.Get("ETag") == old {
		t.Errorf("with the newest ETag: %d, and the next is %s", status, header.Get("ETag"))
	}
	if status, _ := activate(old); status != http.StatusPreconditionFailed {
		t.Errorf("with an older ETag: %d", status)
	}
	if now, _ := read(); now != header.Get("ETag") {
		t.Errorf("ETag %s is not that of the last change, %s", now, header.Get("ETag"))
	}
	if status, _ := activate("*"); status != http.StatusOK {
		t.Errorf("with any ETag: %d", status)
	}
}

func jsonNumber(n uint64) string {
	data, _ := json.Marshal(n)
	return string(data)
}

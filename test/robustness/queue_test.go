package robustness

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// The broker is killed while requests wait: after the start they wait as before, in their order,
// and are served once a provider has room; the parts of a request that was split are all there.
func TestKilledWhileRequestsWait(t *testing.T) {
	b := newProcess(t)
	b.start()
	rome, milan, paris := b.join("rome"), b.join("milan"), b.join("paris")
	offer := func(milli int64) {
		t.Helper()
		if err := milan.Offer(t.Context(), cpu(milli)); err != nil {
			t.Fatal(err)
		}
		if err := paris.Offer(t.Context(), cpu(milli)); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(key string, r api.Request, want api.State) client.Reservation {
		t.Helper()
		made, err := rome.Reserve(t.Context(), key, r)
		if err != nil || made.Payload.State != want {
			t.Fatalf("%s: %+v, %v", key, made.Payload, err)
		}
		return made
	}
	waits := func(priority int32) api.Request {
		return api.Request{Resources: cpu(3000), Wait: &metav1.Duration{Duration: time.Hour}, Priority: priority}
	}
	offer(1000)
	parts := ask("parts", api.Request{Resources: cpu(2000), Split: 2}, api.Held).Payload.Group
	low, high := ask("low", waits(0), api.Pending), ask("high", waits(1), api.Pending)
	b.kill()
	b.start()
	b.balanced()
	if again := ask("low", waits(0), api.Pending); again.ID != low.ID ||
		again.Payload.Waiting.Position != 2 || !again.Payload.Waiting.Since.Equal(&low.Payload.Waiting.Since) {
		t.Errorf("%+v, was %+v", again.Payload.Waiting, low.Payload.Waiting)
	}
	known := all(t, b.operator)
	if len(parts) != 2 || known[parts[0]].Payload.State != api.Held || known[parts[1]].Payload.State != api.Held {
		t.Errorf("parts: %+v", parts)
	}
	if err := milan.Offer(t.Context(), cpu(5000)); err != nil { // one more fits
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); all(t,
		b.operator)[high.ID].Payload.State != api.Held; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", all(t, b.operator)[high.ID].Payload)
		}
	}
	if is := all(t, b.operator)[low.ID].Payload; is.State != api.Pending || is.Waiting.Position != 1 {
		t.Errorf("%+v", is)
	}
	b.balanced()
}

package robustness

import (
	"testing"
	"time"

	"github.com/bourse-dev/bourse/api"
)

// Asked to stop under load, the broker answers every call that it took in: what it recorded is
// exactly what it acknowledged. Its watches end with a word, its exit code is 0.
func TestStoppedUnderLoad(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	l := newLoad(b, 6, 3, cpu(40_000))
	for range 5 {
		watch := follow(t, l.consumers[0])
		watch.begins()
		l.offer()
		enough := l.made() + 12
		stopped := make(chan struct{})
		time.AfterFunc(300*time.Millisecond, func() {
			defer close(stopped)
			l.waitFor(enough)
			b.stop()
		})
		l.run(t.Context())
		<-stopped
		if !watch.hears(api.CodeUnavailable) {
			t.Errorf("the watch ended without a word: %v", watch.ended)
		}
		b.start()
		known := all(t, b.operator)
		made := 0
		for _, d := range l.deals {
			was := d.acknowledged
			if was.ID == "" || was.Payload.State == api.Rejected { // which is an answer, and no record
				continue
			}
			made++
			if is := known[was.ID]; !d.mayBe(is) && (is.Revision != was.Revision || is.Payload.State != was.Payload.State) {
				t.Errorf("%s: reservation %s is %s at %d, the last answer said %s at %d",
					d.key, was.ID, is.Payload.State, is.Revision, was.Payload.State, was.Revision)
			}
		}
		if made != len(known) {
			t.Errorf("%d reservations were acknowledged, %d were recorded", made, len(known))
		}
		b.balanced()
	}
	if len(l.deals) < 50 || l.lost == 0 {
		t.Errorf("only %d reservations and %d calls that came too late: nothing was tested", len(l.deals), l.lost)
	}
}

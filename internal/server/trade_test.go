package server_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// recorder keeps what calls were made and what came of them.
type recorder struct {
	start   time.Time
	mu      sync.Mutex
	history []porcupine.Operation
	taken   chan struct{} // closed once deal taking has its capacity
	asked   chan struct{} // closed once deal waiting was asked for
}

// call makes a call until it is answered; each try is a call of its own. It returns the state, or
// the error's code.
func (r *recorder) call(client int, in step, do func() (client.Reservation, error)) (client.Reservation, string) {
	for {
		call := time.Since(r.start).Nanoseconds()
		answer, err := do()
		end, out := time.Since(r.start).Nanoseconds(), string(answer.Payload.State)
		if code := api.CodeOf(err); err != nil {
			out = string(code)
			if code == api.CodeUnavailable {
				end, out = math.MaxInt64, lost
			}
		}
		if in.verb == "reserve" && out == string(api.CodeInsufficient) {
			continue // nothing was made, and others were faster: the same again
		}
		if in.verb == "release" && waits(in.deal) && out == string(api.CodeConflict) {
			continue // it was served since it was read: nothing was ended
		}
		r.mu.Lock()
		r.history = append(r.history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: end})
		r.mu.Unlock()
		if out != lost {
			return answer, out
		}
	}
}

// trade lets consumers and their provider make all deals at once, over lines that lose answers.
func trade(t *testing.T, seed uint64) []porcupine.Operation {
	t.Helper()
	f := servertest.Start(t, servertest.Options{})
	milan := f.Join("milan")
	milan.Advertise(fmt.Sprint(capacity))
	const consumers = 4
	r := &recorder{start: time.Now(), taken: make(chan struct{}), asked: make(chan struct{})}
	var all sync.WaitGroup
	for c := range consumers {
		rome := f.Join(fmt.Sprintf("rome-%d", c))
		rome.Client = client.New(f.URL,
			&http.Client{Transport: &unreliable{rome.HTTP.Transport, rand.New(rand.NewPCG(seed, uint64(c)))}})
		theirs := client.New(f.URL, &http.Client{Transport: &unreliable{milan.HTTP.Transport,
			rand.New(rand.NewPCG(seed, uint64(c+consumers)))}})
		all.Go(func() {
			chance := rand.New(rand.NewPCG(seed, uint64(c)+99))
			for deal := c; deal < deals; deal += consumers {
				liveThrough(r, rome, &provider{milan, theirs}, c, deal, chance.IntN(3) == 0)
			}
		})
	}
	all.Wait()
	return r.history
}

type provider struct {
	*servertest.Member
	line *client.Client
}

// At least one deal of each history waits, and is served: deal taking has its capacity before any other begins, and keeps
// it until deal waiting, for which no room is left, was asked for.
const taking, waiting = 2, 1

// liveThrough takes one deal through its life. In a hurry the consumer ends it while the provider accepts.
func liveThrough(r *recorder, rome *servertest.Member, milan *provider, id, deal int, hurry bool) {
	ctx := context.Background()
	request, began := transporttest.Request(fmt.Sprint(size(deal))), time.Since(r.start).Nanoseconds()
	if request.Priority = 100; waits(deal) { // nothing is kept from anybody but itself: the model knows of no such thing
		request = patient(fmt.Sprint(size(deal)), int32(deal))
	}
	if deal != taking {
		<-r.taken
	}
	held, state := r.call(id, step{deal, "reserve"},
		func() (client.Reservation, error) { return rome.Reserve(ctx, fmt.Sprint(deal), request) })
	switch deal {
	case taking:
		close(r.taken)
	case waiting:
		close(r.asked)
	}
	if waits(deal) {
		held, state = r.wait(id, rome, deal, held, began)
	}
	if state != string(api.Held) {
		return
	}
	assignment := rome.Assign(held)
	confirmed, _ := r.call(id, step{deal, "confirm"},
		func() (client.Reservation, error) { return rome.Confirm(ctx, held.ID, assignment) })
	end := func() {
		if deal == taking {
			<-r.asked
		}
		document := rome.End(confirmed, api.ReasonReleased)
		r.call(id, step{deal, "release"}, func() (client.Reservation, error) { return rome.Release(ctx, held.ID, document) })
	}
	var both sync.WaitGroup
	both.Go(func() {
		document := milan.Agree(confirmed)
		r.call(id+10, step{deal, "accept"}, func() (client.Reservation,
			error) {
			return milan.line.Accept(ctx, held.ID, document)
		})
	})
	if hurry {
		both.Go(end)
	}
	both.Wait()
	if !hurry {
		end()
	}
	r.call(id+10, step{deal, "free"}, func() (client.Reservation,
		error) {
		return milan.line.Progress(ctx, held.ID, api.Released)
	})
}

// wait waits until a deal is held, or gives up. That the queue serves it is a call of its own, made
// by nobody, at some time since the deal began: until it was seen, or where it was not, perhaps
// never.
func (r *recorder) wait(id int, rome *servertest.Member, deal int,
	held client.Reservation, began int64) (client.Reservation, string) {
	ctx := context.Background()
	served := porcupine.Operation{ClientId: id + 20, Input: step{deal, "serve"},
		Call: began, Output: lost, Return: math.MaxInt64}
	if held.Payload.State == api.Pending {
		patience := 500 * time.Millisecond
		if deal == waiting { // until all others have ended
			patience = time.Minute
		}
		for until := time.Now().Add(patience); time.Now().Before(until) &&
			held.Payload.State == api.Pending; time.Sleep(2 * time.Millisecond) {
			if now, err := rome.Reservation(ctx, held.ID); err == nil {
				held = now
			}
		}
		if held.Payload.State == api.Held {
			served.Output, served.Return = string(api.Held), time.Since(r.start).Nanoseconds()
		} else {
			r.call(id, step{deal, "release"}, func() (client.Reservation, error) {
				if now, err := rome.Reservation(ctx, held.ID); err == nil {
					held = now
				}
				return rome.Release(ctx, held.ID, rome.End(held, api.ReasonReleased))
			})
			held.Payload.State = api.Failed
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, served)
	return held, string(held.Payload.State)
}

// unreliable loses one answer in twelve.
type unreliable struct {
	http.RoundTripper
	chance *rand.Rand
}

func (u *unreliable) RoundTrip(r *http.Request) (*http.Response, error) {
	return (&lossy{u.RoundTripper, u.chance.IntN(12) == 0}).RoundTrip(r)
}

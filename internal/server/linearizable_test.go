package server_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bourse-dev/bourse/api"
)

// What concurrent clients see of one provider's capacity, through the real API, is what they would see if
// their calls had been carried out one after the other, each between its call and its answer. A call whose
// answer was lost may have been carried out at any time after, or never.
func TestLinearizable(t *testing.T) {
	served := 0
	for seed := range uint64(4) {
		history := trade(t, seed)
		for _, o := range history {
			if o.Input.(step).verb == "serve" && o.Output == string(api.Held) {
				served++
			}
		}
		switch porcupine.CheckOperationsTimeout(oneAfterTheOther, history, 20*time.Second) {
		case porcupine.Illegal:
			t.Fatalf("seed %d: no order of these calls explains their answers:\n%s", seed, tell(history))
		case porcupine.Unknown:
			// Correct histories take less than 10 ms. Wrong ones can take too long to decide.
			t.Fatalf("seed %d: no order was found in time for these %d calls:\n%s", seed, len(history), tell(history))
		}
	}
	if served == 0 {
		t.Error("nothing that waited was served")
	}
}

const (
	deals    = 24 // reservations that are asked for, each once
	capacity = 6  // CPUs, which is less than is asked
)

// size is how many CPUs a deal is about: one that waits is about so much that it often has to.
func size(deal int) int {
	if waits(deal) {
		return capacity - 1
	}
	return 1 + deal%3
}

// waits says whether a deal waits where there is no room.
func waits(deal int) bool { return deal%4 == 1 }

// books is the whole state of the model: where each deal is. Unborn is one that was not asked for yet.
type books [deals]api.State

const (
	unborn api.State = ""
	signed api.State = "Held, signed"
	// bound marks what was accepted before it ended: to accept that again is a repeat.
	bound = ", bound"
)

// shown is the state as the API says it.
func (b books) shown(deal int) api.State {
	state, _, _ := strings.Cut(string(b[deal]), ",")
	return api.State(state)
}

func (b books) free() int {
	left := capacity
	for deal := range b {
		if b.shown(deal).Counts() {
			left -= size(deal)
		}
	}
	return left
}

// step is one call about one deal.
type step struct {
	deal int
	verb string
}

// lost is the output of a call without an answer; any other is the state, or the code of the error, in it.
const lost = "?"

var oneAfterTheOther = porcupine.Model{
	Init: func() any { return books{} },
	Step: func(state, input, output any) (bool, any) {
		before, in, out := state.(books), input.(step), output.(string)
		refusal, next := before.decide(in)
		after := before
		after[in.deal] = next
		return out == lost || out == string(refusal) || refusal == "" && out == string(after.shown(in.deal)), after
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
}

// decide is the market in twenty lines: where the deal is after a step, and the code if it was refused.
func (b books) decide(in step) (refusal api.Code, next api.State) {
	now := b[in.deal]
	visible := now == signed || now == api.Reserved || b.shown(in.deal) == api.Releasing ||
		b.shown(in.deal) == api.Released
	switch in.verb {
	case "reserve":
		switch {
		case now != unborn:
			return "", now
		case b.free() < size(in.deal) && waits(in.deal):
			return "", api.Pending
		case b.free() < size(in.deal):
			return "", api.Rejected
		}
		return "", api.Held
	case "serve":
		if now == api.Pending && b.free() >= size(in.deal) {
			return "", api.Held
		}
		return api.CodeConflict, now // it is not seen, then
	case "confirm":
		if now == api.Held {
			return "", signed
		}
		return "", now // a repeat
	case "release":
		switch now {
		case api.Held, api.Pending:
			return "", api.Failed
		case signed:
			return "", api.Releasing
		case api.Reserved:
			return "", api.Releasing + bound
		}
		return "", now
	case "accept":
		switch {
		case now == signed:
			return "", api.Reserved
		case now == api.Reserved || strings.HasSuffix(string(now), bound):
			return "", now
		case visible:
			return api.CodeConflict, now
		}
	case "free":
		switch {
		case b.shown(in.deal) == api.Releasing:
			return "", api.State(strings.Replace(string(now), string(api.Releasing), string(api.Released), 1))
		case b.shown(in.deal) == api.Released:
			return "", now
		case visible:
			return api.CodeConflict, now
		}
	}
	return api.CodeNotFound, now
}

func tell(history []porcupine.Operation) (text string) {
	for _, o := range history {
		end := time.Duration(o.Return).String()
		if o.Return == math.MaxInt64 {
			end = "..."
		}
		text += fmt.Sprintf("%12s %12s  client %d  %v -> %v\n", time.Duration(o.Call), end, o.ClientId, o.Input, o.Output)
	}
	return text
}

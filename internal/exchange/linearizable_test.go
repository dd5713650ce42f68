package exchange_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
)

// act is what one client does to the capacity of one provider, and answer what it is told.
type act struct {
	kind  string // hold, free or look
	cores int64
}

type answer struct {
	ok   bool
	left int64 // of a look
}

// capacity is the specification: a number that a hold takes from if there is enough, and a free adds to.
var capacity = porcupine.Model{
	Init: func() any { return int64(8) },
	Step: func(state, input, output any) (bool, any) {
		left, in, out := state.(int64), input.(act), output.(answer)
		switch in.kind {
		case "hold":
			if fits := left >= in.cores; fits != out.ok {
				return false, left
			} else if fits {
				left -= in.cores
			}
		case "free":
			left += in.cores
		case "look":
			return out.left == left, left
		}
		return true, left
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprint(input, " -> ", output) },
}

// What clients are told, all together, is what they would be told one after the other.
func TestLinearizable(t *testing.T) {
	x := founded(t, newMemory(), exchange.Options{})
	began := time.Now()
	var mu sync.Mutex
	var history []porcupine.Operation
	record := func(client int, in act, do func() answer) answer {
		call := time.Since(began).Nanoseconds()
		out := do()
		done := time.Since(began).Nanoseconds()
		mu.Lock()
		defer mu.Unlock()
		history = append(history, porcupine.Operation{ClientId: client, Input: in, Call: call, Output: out, Return: done})
		return out
	}
	var all sync.WaitGroup
	for client := range 6 {
		random := rand.New(rand.NewPCG(1, uint64(client)))
		all.Go(func() {
			for i := range 40 {
				id, cores := fmt.Sprintf("r%d-%d", client, i), 1+random.Int64N(4)
				if record(client, act{"hold", cores}, func() answer {
					_, err := x.Do(t.Context(), hold(id, cores))
					if err != nil && api.CodeOf(err) != api.CodeInsufficient {
						t.Error(err)
					}
					return answer{ok: err == nil}
				}).ok {
					record(client, act{"look", 0}, func() answer { return answer{left: x.available("rome") / 1000} })
					record(client, act{"free", cores}, func() answer {
						x.must(market.Release{ID: id, By: "paris", Generation: 1})
						return answer{ok: true}
					})
				}
			}
		})
	}
	all.Wait()
	if result := porcupine.CheckOperationsTimeout(capacity, history, time.Minute); result != porcupine.Ok {
		t.Errorf("the history of %d operations is %s", len(history), result)
	}
}

package proposals

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/turns"
)

// A namespace is listed once, however many proposals it has. One that was noted already keeps its place.
func TestStandingIsListedOnce(t *testing.T) {
	now, lists := time.Unix(1_900_000_000, 0), 0
	list := func() (map[string]time.Time, error) {
		lists++
		return map[string]time.Time{"old": now, "first": now.Add(time.Minute), "next": now.Add(time.Hour)}, nil
	}
	var s standing
	at := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "team", Name: name} }
	refused := 0
	for i := range 1000 {
		full, err := s.add(at(fmt.Sprint("p-", i)), now.Add(time.Hour), now, list)
		if err != nil || !full.IsZero() && !full.Equal(now.Add(time.Minute)) {
			t.Fatalf("the %d. is full until %s, %v", i, full, err)
		}
		if !full.IsZero() {
			refused++
		}
	}
	if lists != 1 || refused != 1000-maxStanding+2 {
		t.Errorf("it listed %d times, and refused %d", lists, refused)
	}
	if full, _ := s.add(at("p-0"), now.Add(time.Hour), now, list); !full.IsZero() {
		t.Error("one that stands has no place")
	}
	s.remove(at("p-0"))
	if full, _ := s.add(at("p-999"), now.Add(time.Hour), now, list); !full.IsZero() {
		t.Error("the place of one that is gone is not free")
	}
	if full, _ := s.add(at("p-998"), now.Add(time.Hour), now.Add(time.Minute), list); !full.IsZero() {
		t.Error("the place of one that has expired is not free")
	}
}

// A namespace with many proposals delays no other one, nor does a buyer.
func TestProposalsTakeTurns(t *testing.T) {
	d := newDesk(t)
	d.proposes("own", nil) // of team-a
	received := &api.Proposal{Spec: api.ProposalSpec{Buyer: "milan"}}
	received.Namespace, received.Name = "bourse", "p-milan"
	own := &api.Proposal{}
	own.Namespace, own.Name = "bourse", "own"
	for _, o := range []*api.Proposal{received, own} {
		if err := d.Client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	queue := turns.New(d.turnOf)
	push := func(namespace, name string) {
		queue.Push(ctrl.Request{NamespacedName: client.ObjectKey{Namespace: namespace, Name: name}})
	}
	for i := range 100 {
		push("flood", fmt.Sprint("p-", i))
		push("bourse", fmt.Sprint("new-", i)) // received just now
	}
	others := [][2]string{{"team-a", "own"}, {"bourse", "p-milan"}, {"bourse", "own"}}
	for _, other := range others {
		push(other[0], other[1])
	}
	left := len(others)
	for range 2 + len(others) {
		at := queue.Pop()
		for _, other := range others {
			if at.Namespace == other[0] && at.Name == other[1] {
				left--
			}
		}
	}
	if left != 0 {
		t.Errorf("%d wait behind a flood", left)
	}
}

package kube

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/internal/journal"
)

// A Ledger whose parts another version made of another size opens with all that it holds, and goes
// on: also after a downgrade.
func TestPartsOfAnotherSize(t *testing.T) {
	cluster, state := newCluster(), make([]byte, 1400) // which does not pack, and nearly fills the smaller parts
	rand.NewChaCha8([32]byte{}).Read(state)
	var head journal.Head
	for life, size := range []int{400, 600, 400, 600} {
		j := agent(t, cluster, interceptor.Funcs{})
		j.limits = tight
		j.limits.part = size
		found := load(t, j)
		if life > 0 && (found.Head != head || found.State != string(state) || len(found.Records) != 2) {
			t.Fatalf("life %d finds %d records after a state of %d bytes at %+v, want %+v",
				life, len(found.Records), len(found.State), found.Head, head)
		}
		head = found.Head
		add := func(event string) {
			t.Helper()
			var err error
			if head, err = j.Append(t.Context(), head, [][]byte{[]byte(event)}); err != nil {
				t.Fatalf("life %d: %v", life, err)
			}
		}
		for i := range 8 { // they take several parts
			add(fmt.Sprintf("%x", digest([]byte(fmt.Sprint(life, i)))))
		}
		state[0]++
		if err := j.Snapshot(t.Context(), head, journal.State(state)); err != nil {
			t.Fatalf("life %d: %v", life, err)
		}
		if want := (len(state) + size - 1) / size; len(j.parts) < want || len(j.parts) > want+1 {
			t.Errorf("life %d: its snapshot lies in %d parts, want %d", life, len(j.parts), want)
		}
		add("one that is filed later")
		add(fmt.Sprintf("%x", digest(state)))
	}
}

// etcd takes 1.5 MiB with each write: a full part, and what an API server adds, are less.
func TestAFullPartFitsIntoEtcd(t *testing.T) {
	data := make([]byte, partSize)
	rand.NewChaCha8([32]byte{}).Read(data)
	object := newLedger(client.ObjectKey{Namespace: strings.Repeat("n", 63), Name: strings.Repeat("p", 253)})
	if err := encodePart(object, data); err != nil {
		t.Fatal(err)
	}
	written, err := object.MarshalJSON()
	if most := 3<<19 - 128<<10; err != nil || len(written) > most {
		t.Errorf("it takes %d bytes, want at most %d: %v", len(written), most, err)
	}
}

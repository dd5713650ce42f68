package questions

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/bourse-dev/bourse/internal/server"
)

var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func named(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// serves puts a session of a key into a book, which began at a time.
func (b *book) serves(namespace, name, key string, at time.Time) []session {
	return b.put(named(namespace, name), session{uid: types.UID("uid-" + name), key: key, expires: at.Add(Lasts)})
}

// A key asks for all namespaces in which it has a session, until each has ended.
func TestScopeOfAKey(t *testing.T) {
	b := newBook()
	b.serves("team", "a", "k1", begin)
	b.serves("shop", "b", "k1", begin.Add(time.Minute))
	b.serves("shop", "c", "k2", begin)
	b.serves("", "d", "k3", begin)
	scope := func(key string, after time.Duration) server.Scope { return b.use(key, begin.Add(after)).scope }
	for name, c := range map[string]struct{ got, want server.Scope }{
		"of two namespaces":  {scope("k1", 0), server.Scope{Namespaces: []string{"shop", "team"}}},
		"one has ended":      {scope("k1", Lasts), server.Scope{Namespaces: []string{"shop"}}},
		"both have ended":    {scope("k1", Lasts+time.Minute), server.Scope{}},
		"of the cluster":     {scope("k3", 0), server.Scope{Cluster: true}},
		"the cluster's ends": {scope("k3", Lasts), server.Scope{}},
		"of nobody":          {scope("k4", 0), server.Scope{}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, c.got, c.want)
		}
	}
	b.end(named("team", "a"))
	b.end(named("team", "never"))
	if got := b.use("k1", begin).scope; !reflect.DeepEqual(got, server.Scope{Namespaces: []string{"shop"}}) {
		t.Errorf("after a deletion it is %+v", got)
	}
	// Another object of the same name, with another key.
	b.put(named("shop", "b"), session{uid: "another", key: "k5", expires: begin.Add(Lasts)})
	if b.use("k1", begin).found() || !b.use("k5", begin).found() {
		t.Error("the former key still asks, or the new one does not")
	}
	for _, name := range []string{"b", "c"} {
		b.end(named("shop", name))
	}
	b.end(named("", "d"))
	if len(b.all)+len(b.keys)+len(b.spaces)+len(b.ended) != 0 {
		t.Errorf("after all have ended it keeps %+v", b)
	}
}

// Of too many sessions of a namespace those end that were not used for longest, and none of another namespace.
func TestTooManySessions(t *testing.T) {
	b := newBook()
	b.serves("shop", "other", "other", begin)
	for i := range mostPerNamespace {
		name := fmt.Sprintf("s%03d", i)
		if old := b.serves("team", name, name, begin.Add(time.Duration(i)*time.Millisecond)); len(old) > 0 {
			t.Fatalf("of %d sessions %v end", i, old)
		}
	}
	b.use("s000", begin.Add(time.Minute))
	if again := b.serves("team", "s050", "s050", begin); len(again) > 0 {
		t.Errorf("for one of them %v end", again)
	}
	old := b.serves("team", "new", "new", begin.Add(time.Minute))
	if again := b.serves("team", "s001", "s001", begin.Add(time.Hour)); len(again) > 0 || b.use("s001", begin).found() {
		t.Errorf("one that had no room is served again, and %v end", again)
	}
	if len(old) != 1 || old[0].name.Name != "s001" || b.use("s001", begin).found() || !b.use("new", begin).found() {
		t.Errorf("%v end", old)
	}
}

// The address of a pod names its namespace, unless that is the usual one.
func TestPodAddress(t *testing.T) {
	for namespace, want := range map[string]string{"bourse": "pod:agent-1:8443", "platform-x": "pod:platform-x/agent-1:8443"} {
		if got := podAddress(namespace, "agent-1", "8443"); got != want {
			t.Errorf("in %s it is %s", namespace, got)
		}
	}
}

package posture

import "testing"

// A consumer whose ID ends the name of a namespace of the cluster itself is refused, and no other.
func TestWellKnownNamespaces(t *testing.T) {
	var all Bindings
	for _, id := range []string{"system", "public", "lease", "node-lease", "manager", "nginx", "monitoring"} {
		if found := all.Colliding(id); len(found) != 1 {
			t.Errorf("%s is let in: %v", id, found)
		}
	}
	if found := all.Colliding("rome", "systems", "my-system", "kube-system", "node", "kube"); len(found) != 0 {
		t.Errorf("%v", found)
	}
}

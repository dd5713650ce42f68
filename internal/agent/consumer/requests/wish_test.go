package requests_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/consumer/requests"
)

// A request's own UID names its virtual node at a hub's provider. Only a pool's request may have that of the one
// that it succeeds.
func TestRelendKey(t *testing.T) {
	for _, c := range []struct {
		relend     bool
		pool, want string
	}{{true, "", "uid"}, {true, "upstream", "before"}, {false, "upstream", ""}} {
		o := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{UID: "uid", Labels: map[string]string{api.VirtualNodePoolLabel: c.pool}}}
		o.Spec.Relend, o.Spec.RelendKey = c.relend, "before"
		if got := requests.WishOf(o).Request.RelendKey; got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

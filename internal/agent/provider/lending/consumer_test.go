package lending

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// The user of an account's slice has its consumer, and another user has none.
func TestConsumerOf(t *testing.T) {
	ledger, ours := lends(t)
	consumer := ConsumerOf(ledger)
	for user, want := range map[string]string{
		grant.User(ours.Slice(), "rome"): "rome", grant.User(ours.Slice(), "oslo"): "", "": "",
	} {
		if got := consumer(user); got != want {
			t.Errorf("%q belongs to %q, want %q", user, got, want)
		}
	}
}

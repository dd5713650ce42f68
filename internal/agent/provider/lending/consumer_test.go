package lending

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/liqo/grant"
)

// The user of an account's slice has its consumer, and another user has none.
func TestConsumerOf(t *testing.T) {
	ledger, record := lends(t)
	consumer := ConsumerOf(ledger)
	for user, want := range map[string]string{
		grant.User(record.Slice(), "rome"): "rome", grant.User(record.Slice(), "oslo"): "", "": "",
	} {
		if got := consumer(user); got != want {
			t.Errorf("%q belongs to %q, want %q", user, got, want)
		}
	}
}

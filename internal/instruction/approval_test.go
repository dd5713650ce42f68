package instruction_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/market"
)

// The digest of what waits differs for another object of the name, another generation and another assignment.
func TestApprovalDigest(t *testing.T) {
	first := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	second := &api.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{UID: "2"}}
	seen := map[string]bool{}
	for _, r := range []market.Reservation{
		{Generation: 1, Assignment: "a"}, {Generation: 2, Assignment: "a"}, {Generation: 1, Assignment: "b"},
	} {
		seen[instruction.ApprovalDigest(first, &r)] = true
		seen[instruction.ApprovalDigest(second, &r)] = true
	}
	if len(seen) != 6 {
		t.Errorf("6 have %d digests", len(seen))
	}
}

package market_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestValidCluster(t *testing.T) {
	for _, id := range []string{"a", "rome", "eu-1", strings.Repeat("x", 63)} {
		if err := market.ValidCluster("cluster", id); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	for _, id := range []string{"", "-", "Rome", "rome.eu", "rome\n",
		"r\x00", "ro me", "../x", "рим", strings.Repeat("x", 64), strings.Repeat("x", 100_000)} {
		invalid(t, market.ValidCluster("cluster", id), "cluster")
	}
}

// An account's slice always has the same name, that Kubernetes accepts, and no two accounts share one.
func TestSliceName(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`)
	seen := map[string][3]string{}
	rapid.Check(t, func(t *rapid.T) {
		account := [3]string{name.Draw(t, "consumer"), name.Draw(t, "provider"), name.Draw(t, "pool")}
		slice := market.SliceName(account[0], account[1], account[2])
		if errs := validation.IsDNS1123Label(slice); len(errs) > 0 || !strings.HasPrefix(slice, "b-") {
			t.Fatalf("%v: %q: %v", account, slice, errs)
		}
		if other, taken := seen[slice]; taken && other != account {
			t.Fatalf("%q is the slice of %v and of %v", slice, account, other)
		}
		seen[slice] = account
	})
	for _, twins := range [][2][3]string{
		{{"ab", "c", "general"}, {"a", "bc", "general"}},
		{{"a", "b", "general"}, {"b", "a", "general"}},
		{{"a", "b", strings.Repeat("p", 62) + "1"}, {"a", "b", strings.Repeat("p", 62) + "2"}},
	} {
		a, b := market.SliceName(twins[0][0], twins[0][1], twins[0][2]), market.SliceName(twins[1][0],
			twins[1][1], twins[1][2])
		if a == b || len(a) > 63 || len(b) > 63 {
			t.Errorf("the slices of %v are %q and %q", twins, a, b)
		}
	}
	if got := market.SliceName("paris", "rome", api.GeneralPool); got != "b-general-zfmzscqo7bu6ee7w" {
		t.Errorf("the name of an account's slice changed to %q: nodes in the field would lose theirs", got)
	}
}

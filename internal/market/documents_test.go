package market_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
	"github.com/bourse-dev/bourse/internal/market"
)

// Every valid request has an assignment that its provider accepts.
func TestTheLongestAssignmentIsTaken(t *testing.T) {
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	asked := func(names int) api.Resources {
		all := api.Resources{}
		for i := range 64 {
			name := fmt.Sprintf("%02d-", i)
			all[corev1.ResourceName(name+strings.Repeat("n", names/64-len(name)))] = resource.MustParse("1152921504606846")
		}
		return all
	}
	size, err := amounts.ParseRequest("resources", asked(3<<10))
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 63)
	r := &market.Reservation{ID: long, Consumer: long, Provider: long,
		Pool: long, Size: size, Generation: 1 << 50, Until: noon, HeldUntil: noon, From: noon,
		Sale: &api.Sale{Offer: key.Public().Fingerprint().String(), Plan: long, Units: 1 << 50}}
	a := market.AssignmentOf(r, key.Public().Fingerprint().String(), key.Public().Fingerprint().String())
	a.Issued = a.Until
	document, err := key.Sign(api.DocumentAssignment, a)
	if err != nil || len(document) > api.MaxAssignment {
		t.Errorf("%d bytes of at most %d, %v", len(document), api.MaxAssignment, err)
	}
	if _, err := amounts.ParseRequest("resources", asked(4<<10)); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("more is refused by %v", err)
	}
}

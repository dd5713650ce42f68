package lending

import (
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// Each reservation of an account has its part of the grant. What it uses is known if no other has pods in the account.
func TestSplitAnAccount(t *testing.T) {
	of := func(cpu int64) *market.Reservation {
		return &market.Reservation{Size: amounts.List{{Resource: "cpu", Value: 1000 * cpu}}}
	}
	four, two := of(4), of(2)
	type all = []*market.Reservation
	for what, c := range map[string]struct {
		account       Account
		granted, used string // by the account
		want          []string
	}{
		"alone":                     {Account{Bound: all{four}}, "4", "1500m", []string{"4 1500m"}},
		"alone, uses too much":      {Account{Bound: all{four}}, "4", "5", []string{"4 4"}},
		"two":                       {Account{Bound: all{four, two}}, "6", "2", []string{"4 ?", "2 ?"}},
		"two, not all is granted":   {Account{Bound: all{four, two}}, "5", "2", []string{"4 ?", "1 ?"}},
		"beside one that ends":      {Account{Bound: all{four}, Ending: all{two}}, "6", "2", []string{"4 ?"}},
		"beside a plain consumer's": {Account{Plain: two.Size, Bound: all{four}}, "5", "2", []string{"3 ?"}},
	} {
		granted, used := c.account.split(api.AccountSum{
			Granted: transporttest.CPU(c.granted), Used: transporttest.CPU(c.used)})
		for i, want := range c.want {
			got := granted[i].Cpu().String() + " ?"
			if used[i] != nil {
				got = granted[i].Cpu().String() + " " + used[i].Cpu().String()
			}
			if got != want {
				t.Errorf("%s: reservation %d is granted and uses %s, want %s", what, i, got, want)
			}
		}
	}
}

package server_test

import (
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// What all may have, an operator's word about one of them, and back.
func TestCaps(t *testing.T) {
	ctx := t.Context()
	f := servertest.Start(t, servertest.Options{Caps: market.Caps{Reservations: 2}})
	rome, milan := f.Join("rome"), f.Join("milan")
	milan.Advertise("100")
	reserve := func(key string, says string) {
		t.Helper()
		_, err := rome.Reserve(ctx, key, transporttest.Request("5"))
		switch {
		case says == "" && err != nil:
			t.Errorf("%s: %v", key, err)
		case says != "" && (api.CodeOf(err) != api.CodeCapReached || !strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %s", key, err, says)
		}
	}
	set := func(caps api.Caps) api.Member {
		t.Helper()
		m, err := f.Operator.SetCaps(ctx, "rome", caps)
		if err != nil {
			t.Fatal(err)
		}
		return m.Payload
	}
	reserve("a", "")
	reserve("b", "")
	reserve("c", "may have 2 reservations")
	if m := set(api.Caps{Reservations: 10, Resources: transporttest.Request("16").Resources}); m.Caps == nil ||
		m.Caps.Reservations != 10 || m.Caps.Resources.Cpu().String() != "16" {
		t.Errorf("set to %+v", m.Caps)
	}
	reserve("c", "")
	reserve("d", "may have 16 cpu pending, held and reserved: it has 15, and asks for 5 more")
	if m := set(api.Caps{}); m.Caps != nil {
		t.Errorf("taken back to %+v", m.Caps)
	}
	reserve("d", "may have 2 reservations")
	if _, err := f.Operator.SetCaps(ctx, "nobody", api.Caps{Reservations: 1}); api.CodeOf(err) != api.CodeNotFound {
		t.Errorf("of nobody: %v", err)
	}
	if _, err := f.Operator.SetCaps(ctx, "rome", api.Caps{Reservations: -1}); api.CodeOf(err) != api.CodeInvalid {
		t.Errorf("negative: %v", err)
	}
}

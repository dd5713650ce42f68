package lab

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// A machine boots, and has what Liqo's data plane needs.
func TestMachine(t *testing.T) {
	m := MachineFor(t, Test(t))
	out, err := m.Run(t.Context(), `
/bin/ip link add g type geneve id 1 remote 192.0.2.9
/bin/ip link add w type wireguard
wg show w
nft list tables`)
	if err != nil || !strings.Contains(out, "interface: w") || !strings.Contains(out, "table ip machine") {
		t.Errorf("it says %s, %v", out, err)
	}
	if out, err := m.Run(t.Context(), "echo before; false; echo after"); err == nil ||
		!strings.Contains(err.Error(), "before") || out == "" {
		t.Errorf("a script that fails says %q, %v", out, err)
	}
}

// outcome is a test that records how it is ended.
type outcome struct {
	testing.TB
	how string
}

func (o *outcome) Skip(why ...any)  { o.end("skipped", why) }
func (o *outcome) Fatal(why ...any) { o.end("failed", why) }

func (o *outcome) end(how string, why []any) {
	o.how = how + ": " + fmt.Sprint(why...)
	panic(o)
}

// Where the packages of a machine cannot be had, tests are skipped with the reason. With CI=true they fail.
func TestNoPackages(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("BOURSE_CACHE", t.TempDir())
	for ci, want := range map[string]string{"": "skipped", "false": "skipped", "true": "failed"} {
		t.Setenv("CI", ci)
		o := &outcome{TB: t}
		func() {
			defer func() {
				if ended := recover(); ended != o {
					t.Errorf("with CI=%s it ends by %v", ci, ended)
				}
			}()
			MachineFor(o, &Lab{progress: io.Discard})
		}()
		if !strings.HasPrefix(o.how, want+": no Debian packages for the machine: apt-get: ") {
			t.Errorf("with CI=%s it is %s, want %s", ci, o.how, want)
		}
	}
}

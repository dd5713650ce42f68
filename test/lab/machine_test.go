package lab

import (
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

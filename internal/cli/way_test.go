package cli

import (
	"strings"
	"testing"
)

// What is named decides. Between an agent of this machine and the kubeconfig in the home folder nothing decides.
func TestWays(t *testing.T) {
	const server, socket = "unix:///run/other.sock", "unix:///run/agent.sock"
	for name, c := range map[string]struct {
		ways ways
		want way
		says string
	}{
		"flags first":            {ways{flags: true, server: server, kubeconfig: "f"}, way{asUser: true}, ""},
		"server and kubeconfig":  {ways{server: server, kubeconfig: "f"}, way{server: server}, ""},
		"server alone":           {ways{server: server, current: "prod"}, way{server: server}, ""},
		"server of no form":      {ways{server: "rome:7443"}, way{server: "rome:7443"}, "neither a URL nor a socket"},
		"kubeconfig":             {ways{kubeconfig: "f", socket: socket, current: "prod"}, way{asUser: true}, ""},
		"socket alone":           {ways{socket: socket}, way{server: socket}, ""},
		"home folder alone":      {ways{current: "prod"}, way{asUser: true}, ""},
		"socket and home folder": {ways{socket: socket, current: "prod"}, way{}, "--context prod, or export BOURSE_SERVER=" + socket},
		"none":                   {ways{}, way{}, "export KUBECONFIG=FILE"},
	} {
		got, err := c.ways.choose()
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, c.want, c.says)
		}
	}
}

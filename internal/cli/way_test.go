package cli

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
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
		"unreadable home folder": {ways{socket: socket, unread: errors.New("the file")}, way{}, "the file"},
	} {
		got, err := c.ways.choose()
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, c.want, c.says)
		}
	}
}

// A kubeconfig that cannot be read is an error that names the file.
func TestKubeconfigThatCannotBeRead(t *testing.T) {
	home := t.TempDir()
	file, missing := filepath.Join(home, "broken"), filepath.Join(home, "missing")
	if err := os.WriteFile(file, []byte("{nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ flag, env, names string }{
		"flag":    {file, "", file},
		"missing": {missing, "", missing},
		"env":     {"", file, file},
		"no file": {"", missing, missing},
	} {
		t.Setenv("KUBECONFIG", c.env)
		args := []string{"vnp"}
		if c.flag != "" {
			args = append(args, "--kubeconfig", c.flag)
		}
		var out, progress bytes.Buffer
		if code := Main(args, &out, &progress); code != 2 || !strings.Contains(progress.String(), c.names) {
			t.Errorf("%s: exit code %d: %s", name, code, progress.String())
		}
	}
}

// A proposal is in one namespace: that of all is none.
func TestProposeForAllNamespaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}],
contexts: [{name: c, context: {cluster: c}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, progress bytes.Buffer
	code := Main([]string{"propose", "milan/web/small", "--price", "1EUR/hour", "-A", "--kubeconfig", file}, &out, &progress)
	if code != 2 || !strings.Contains(progress.String(), "--all-namespaces: ") {
		t.Errorf("exit code %d: %s", code, progress.String())
	}
}

// A suggestion is a name that a user may have meant.
func TestSimilarNames(t *testing.T) {
	known := []string{"rome", "milan", "paris"}
	for name, want := range map[string]string{"nope": "", "rom": "rome", "parsi": "paris", "mlian": "milan", "osl": ""} {
		if got := strings.Join(similar(name, known), " "); got != want {
			t.Errorf("%s may mean %q, want %q", name, got, want)
		}
	}
}

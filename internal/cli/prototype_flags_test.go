package cli

import (
	"io"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/settings"
)

// An empty transport means no broker, as with the prototype, even if other flags name one.
func TestEmptyTransport(t *testing.T) {
	is := offline(settings.Member{ClusterID: "rome", Join: "token", BrokerURL: "https://broker:7443", CertDir: "certs"})
	if is != (settings.Member{ClusterID: "rome", NoBroker: true}) {
		t.Errorf("%+v", is)
	}
	for flag, want := range map[string]string{ // each is refused for what follows the transport
		"--broker-transport=": "--endorsement: open nosuch: no such file or directory; name the file with the output of `bourse root endorse`",
		"--log-level=info":    "--broker-namespace: there is no --broker-kubeconfig; leave it out, or also give --broker-kubeconfig",
	} {
		root := Root(io.Discard, io.Discard)
		root.SetArgs([]string{"agent", flag, "--broker-namespace", "n", "--endorsement", "nosuch"})
		if err := root.ExecuteContext(t.Context()); err == nil || err.Error() != "Invalid: "+want && err.Error() != want {
			t.Errorf("%s: %v", flag, err)
		}
	}
}

// The prototype's flags name the agent's namespace, before POD_NAMESPACE does. Two that differ are refused.
func TestNamespaceFlags(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "pod")
	for _, c := range []struct{ namespace, advertisement, instruction, want string }{
		{"", "", "", "pod"}, {"own", "", "", "own"}, {"", "shown", "", "shown"}, {"", "", "told", "told"},
		{"own", "own", "own", "own"}, {"own", "other", "", ""}, {"", "shown", "told", ""},
	} {
		o := settings.Options{Namespace: c.namespace}
		n := namespaceFlags{advertisement: c.advertisement, instruction: c.instruction}
		if err := n.read(&o); (err == nil) != (c.want != "") || err == nil && o.Namespace != c.want {
			t.Errorf("%+v: %q, %v", c, o.Namespace, err)
		}
	}
	t.Setenv("POD_NAMESPACE", "")
	if o := (settings.Options{}); (&namespaceFlags{}).read(&o) != nil || o.Namespace != api.Namespace {
		t.Errorf("without any: %q", o.Namespace)
	}
}

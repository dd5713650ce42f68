package install_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// An agent that fails in a cluster without Bourse's kinds says which chart to install. With them,
// the error stays.
func TestExplainMissing(t *testing.T) {
	failure := errors.New("failed to determine if *api.Peer is namespaced")
	empty := kubeapi.New(kubeapi.Options{})
	err := install.ExplainMissing(empty.Config(), failure)
	if api.CodeOf(err) != api.CodeUnavailable || !strings.Contains(err.Error(), "helm install bourse-base charts/bourse-base") {
		t.Errorf("without kinds: %v", err)
	}
	full := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Peer", Resource: "peers", Namespaced: true},
	}})
	if err := install.ExplainMissing(full.Config(), failure); !errors.Is(err, failure) {
		t.Errorf("with kinds: %v", err)
	}
}

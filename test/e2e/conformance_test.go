package e2e

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi/kubeapitest"
)

// The simulated API server, on which most tests run, passes the same suite.
func TestRealAPIServerDoesWhatTheSimulatedOneDoes(t *testing.T) {
	kubeapitest.Run(t, start(t).rome.Cluster.Config())
}

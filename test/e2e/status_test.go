package e2e

import (
	"testing"

	"github.com/bourse-dev/bourse/internal/kubeobject/kubeobjecttest"
)

// The status writer does at a real API server what it does at the simulated one.
func TestStatusWriter(t *testing.T) {
	kubeobjecttest.Run(t, start(t).rome.Objects, "default")
}

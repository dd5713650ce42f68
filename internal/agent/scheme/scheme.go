// Package scheme names the kinds of Kubernetes objects that the agent and the command line read and
// write: Bourse's own, Liqo's, and those of Kubernetes. Start at [New]. [NewManager] says which of them an
// agent caches.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo"
)

// New returns a scheme with all of these kinds.
func New() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme, liqo.AddToScheme} {
		if err := add(s); err != nil {
			panic(err) // two kinds have one name: a mistake in this program
		}
	}
	return s
}

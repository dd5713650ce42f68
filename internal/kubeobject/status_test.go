package kubeobject_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject/kubeobjecttest"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// At the simulated API server. test/e2e has the same at a real one.
func TestStatus(t *testing.T) {
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "ReservationInstruction",
			Resource: "reservationinstructions", Namespaced: true, Status: true},
	}})
	kinds := runtime.NewScheme()
	if err := api.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(k.Config(), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	kubeobjecttest.Run(t, c, "default")
}

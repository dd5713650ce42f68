package distributedcatalog

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/agent/scheme"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
)

// A profile is kept also if the agent makes its Advertisement at the same moment.
func TestSetProfileWhileTheAgentAdvertises(t *testing.T) {
	k := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{
		{GroupVersion: api.GroupVersion, Kind: "Advertisement", Resource: "advertisements", Namespaced: true}}})
	c, err := client.NewWithWatch(k.Config(), client.Options{Scheme: scheme.New()})
	if err != nil {
		t.Fatal(err)
	}
	late := interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, with ...client.CreateOption) error {
			theirs := o.DeepCopyObject().(client.Object)
			theirs.SetAnnotations(nil)
			if err := c.Create(ctx, theirs); err != nil {
				return err
			}
			return c.Create(ctx, o, with...)
		}})
	home := Objects{Client: late, Namespace: "bourse", Advertisement: "cluster"}
	want := Profile{PrettyName: "Milano", ContractEndpoint: "https://milan.example"}
	if err := home.SetProfile(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got, err := home.Profile(t.Context()); got != want || err != nil {
		t.Errorf("it is %+v, %v", got, err)
	}
}

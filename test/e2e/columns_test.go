package e2e

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// columns are what kubectl get prints of one object, by title.
func columns(ctx context.Context, m *federation.Member, resource, namespace, name string) (map[string]string, error) {
	config := m.Cluster.Config()
	config.GroupVersion, config.APIPath = &api.GroupVersion, "/apis"
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, err
	}
	var table metav1.Table
	err = client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).Name(name).
		SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").Do(ctx).Into(&table)
	if err != nil {
		return nil, err
	}
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("%d rows", len(table.Rows))
	}
	cells := map[string]string{}
	for i, c := range table.ColumnDefinitions {
		cells[c.Name] = fmt.Sprint(table.Rows[0].Cells[i])
	}
	return cells, nil
}

// Command ask prints the clusters that a namespace may see, and how many CPUs of each are available, as the user of a kubeconfig:
//
//	KUBECONFIG=FILE go run ./docs/examples/ask NAMESPACE
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
)

func main() {
	if err := ask(context.Background(), os.Getenv("KUBECONFIG"), os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func ask(ctx context.Context, kubeconfig, namespace string) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c, err := cluster.New(config, namespace)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }() // it deletes the session
	clusters, err := c.Clusters(ctx)
	for _, other := range clusters {
		cpu := other.Payload.Pools[api.GeneralPool].Available["cpu"]
		fmt.Println(other.ID, cpu.String())
	}
	return err
}

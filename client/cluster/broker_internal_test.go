package cluster

import (
	"context"
	"net"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
)

// refused is an API server that lets its user run no command.
type refused struct{}

func (refused) Stream(remotecommand.StreamOptions) error { return nil }

func (refused) StreamWithContext(context.Context, remotecommand.StreamOptions) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods/exec"}, "broker-0", nil)
}

// An operator without rights reads that, whether the call met it while it wrote or while it read.
func TestACommandThatIsRefusedSaysWhy(t *testing.T) {
	for range 300 {
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			return connect(refused{}, "hall/broker-0"), nil
		}}
		_, err := client.New("http://broker", &http.Client{Transport: transport}).BrokerStatus(t.Context())
		if api.CodeOf(err) != api.CodeForbidden {
			t.Fatalf("want Forbidden: %v", err)
		}
		transport.CloseIdleConnections()
	}
}

package kubeapi_test

import (
	"os"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi/kubeapitest"
)

func TestReal(t *testing.T) {
	kc := os.Getenv("KUBEAPI_REAL")
	if kc == "" {
		t.Skip()
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kc)
	if err != nil {
		t.Fatal(err)
	}
	cfg.QPS = -1
	kubeapitest.Run(t, cfg)
}

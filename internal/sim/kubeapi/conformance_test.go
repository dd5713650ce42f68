package kubeapi_test

import (
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/bourse-dev/bourse/internal/sim/kubeapi"
	"github.com/bourse-dev/bourse/internal/sim/kubeapi/kubeapitest"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // clients report what these tests do to them
	log.SetLogger(logr.Discard())
	goleak.VerifyTestMain(m)
}

func newAPI(o kubeapi.Options) *kubeapi.API {
	o.Types = append(o.Types, kubeapitest.Types()...)
	return kubeapi.New(o)
}

func TestConformance(t *testing.T) {
	kubeapitest.Run(t, newAPI(kubeapi.Options{}).Config())
}

func TestConformanceOverLoopback(t *testing.T) {
	server := httptest.NewServer(newAPI(kubeapi.Options{}).Handler())
	defer server.Close()
	kubeapitest.Run(t, &rest.Config{Host: server.URL, QPS: -1})
}

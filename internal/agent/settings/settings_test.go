package settings

import (
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/bourse-dev/bourse/api"
)

func TestParse(t *testing.T) {
	s, err := Parse(Options{Kubernetes: &rest.Config{}, Times: Times{Linger: -1}, Liqo: Liqo{Gateway: "outbound"}})
	if err != nil {
		t.Fatal(err)
	}
	if s.Namespace != "bourse" || s.Liqo.Namespace != "liqo" ||
		s.Times.Abandon != 2*time.Minute || s.Log == nil {
		t.Errorf("the defaults are %+v", s)
	}
	if s.Times.Linger != -1 || !s.Gateway.Joins() || s.Kubernetes.QPS != -1 {
		t.Errorf("it parses to %+v", s)
	}
	for flag, o := range map[string]Options{
		"--network-gateway":  {Liqo: Liqo{Gateway: "door"}},
		"--allow-peer-range": {Peers: Peers{Ranges: []string{"10.0.0.0"}}},
		"--trust-root":       {Peers: Peers{Roots: []string{"no key"}}},
		"--without-broker":   {Member: Member{NoBroker: true, Join: "token"}},
		"--connector-listen": {Listen: Listen{Connector: ":7444"}},
	} {
		o.Kubernetes = &rest.Config{}
		if _, err := Parse(o); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%s: %v", flag, err)
		}
	}
	if s, err := Parse(Options{Kubernetes: &rest.Config{}, Liqo: Liqo{Off: true}}); err != nil || s.Liqo.Namespace != "" {
		t.Errorf("without Liqo: %+v, %v", s.Liqo, err)
	}
}

package broker_test

import (
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/broker"
)

// A broker that cannot open an address of its own ends before it says that it serves.
func TestAddressTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for flag, o := range map[string]broker.Options{
		"--listen":               {Listen: taken.Addr().String()},
		"--metrics-bind-address": {Listen: "127.0.0.1:0", MetricsAddress: taken.Addr().String()},
	} {
		o.Dir, o.Log = t.TempDir(), slog.New(slog.DiscardHandler)
		o.Ready = func(string) { t.Errorf("%s is taken, and it serves", flag) }
		if err := broker.Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s is taken: %v", flag, err)
		}
	}
}

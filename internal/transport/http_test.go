package transport_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestHTTP(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Pair {
		f := servertest.Start(t, servertest.Options{})
		rome, milan := f.Join("rome"), f.Join("milan")
		return transporttest.Pair{
			Consumer: rome.Party, ConsumersTransport: transport.NewHTTP(rome.ID, rome.Client),
			Provider: milan.Party, ProvidersTransport: transport.NewHTTP(milan.ID, milan.Client),
		}
	})
}

package exchange_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/memory"
	"github.com/bourse-dev/bourse/internal/market"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	x, err := exchange.Open(ctx, memory.New(), exchange.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- x.Run(ctx) }()
	for _, c := range []string{"rome", "milan"} {
		if _, err := x.Do(ctx, market.CreateToken{Token: market.Token{ID: "t-" + c, Hash: "h", Cluster: c, Expires: market.At(time.Now().Add(time.Hour))}}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.Do(ctx, market.Join{TokenID: "t-" + c, Hash: "h", Cluster: c, Key: "k" + c, TLSKey: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Println(x.View().Len(), x.View().Listing("rome").Member.State)
	_ = api.Held
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}

package server_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/store"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// The example in docs reserves with curl and OpenSSL alone: the first provider refuses, the second
// one accepts.
func TestReserveWithCurl(t *testing.T) {
	for _, program := range []string{"curl", "jq", "openssl"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	answered := make(chan error, 2)
	for _, name := range []string{"milan", "paris"} {
		provider := f.Join(name)
		provider.Advertise("8")
		go func() { answered <- answer(t.Context(), rome, provider) }()
	}
	example := exec.CommandContext(t.Context(), "sh", "../../docs/examples/reserve.sh", identityFile(t, f, rome))
	var progress strings.Builder
	example.Stderr = &progress
	out, err := example.Output()
	if err != nil {
		t.Fatalf("%v: %s%s", err, out, progress.String())
	}
	for range 2 {
		if err := <-answered; err != nil {
			t.Error(err)
		}
	}
	var r client.Reservation
	if err := json.Unmarshal(out, &r); err != nil || r.Payload.State != api.Reserved ||
		!r.Payload.Resources["cpu"].Equal(resource.MustParse("1")) || len(r.Payload.Tried) != 1 {
		t.Errorf("%s, %v", out, err)
	}
	if n := strings.Count(progress.String(), r.ID+" is held at "); n != 2 {
		t.Errorf("it was held at %d providers, want 2: %s", n, progress.String())
	}
}

// answer refuses the first reservation that the consumer signed, if no provider refused it before,
// and accepts it otherwise.
func answer(ctx context.Context, consumer, provider *servertest.Member) error {
	for {
		signed, err := provider.Reservations(ctx)
		if err != nil {
			return err
		}
		for _, r := range signed {
			if r.Payload.State != api.Held || r.Payload.Provider != provider.ID || r.Payload.Assignment == "" {
				continue
			}
			whole, err := consumer.Reservation(ctx, r.ID)
			if err == nil && len(whole.Payload.Tried) == 0 {
				_, err = provider.Refuse(ctx, r.ID, api.Refusal{Reason: api.ReasonInsufficient, Generation: r.Payload.Generation})
			} else if err == nil {
				_, err = provider.Accept(ctx, r.ID, provider.Agree(r))
			}
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// identityFile writes a member's identity as an agent stores it.
func identityFile(t *testing.T, f *servertest.Federation, m *servertest.Member) string {
	t.Helper()
	tlsKey, err := tlsid.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	joined, err := f.Stranger().Renew(t.Context(), m.Renewal(tlsKey))
	if err != nil {
		t.Fatal(err)
	}
	clusterKey, err := m.Key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := store.InDir(dir).Save(t.Context(), &store.Identity{
		TLSKeyPEM: tlsKey, CertPEM: []byte(joined.Certificate), CAPEM: []byte(joined.CA),
		ClusterKeyPEM: clusterKey, BrokerURL: f.URL,
	}); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	return filepath.Join(dir, files[0].Name())
}

package clusterkey_test

import (
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/identity/clusterkey"
)

// The example in docs signs a document with OpenSSL alone, which verifies.
func TestSignWithOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	key, err := clusterkey.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := key.PEM()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	sign := exec.Command("sh", "../../../docs/examples/sign.sh", file, api.DocumentEnd)
	sign.Stdin = strings.NewReader(`{"by":"rome","consumer":"rome","generation":1,"protocol":2,"provider":"milan","reason":"ReleasedByConsumer","reservation":"r-1"}`)
	document, err := sign.Output()
	if err != nil {
		t.Fatal(err)
	}
	var end api.End
	if err := clusterkey.Verify(strings.TrimSpace(string(document)), api.DocumentEnd, key.Public(), &end); err != nil ||
		end.Reservation != "r-1" {
		t.Errorf("%s is %+v, %v", document, end, err)
	}
}

package pinned_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/identity/pinned"
)

func newKey(t *testing.T) *pinned.Key {
	t.Helper()
	k, err := pinned.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// shake lets a client call a server, and returns the error of each.
func shake(t *testing.T, server, client *tls.Config) (ofServer, ofClient error) {
	t.Helper()
	near, far := net.Pipe()
	defer near.Close()
	s, c := tls.Server(far, server), tls.Client(near, client)
	done := make(chan error, 1)
	go func() {
		defer far.Close()
		err := s.HandshakeContext(context.Background())
		if err == nil {
			_, err = s.Write([]byte("x"))
		}
		done <- err
	}()
	ofClient = c.HandshakeContext(context.Background())
	if ofClient == nil {
		_, ofClient = c.Read(make([]byte, 1)) // in TLS 1.3 a client learns here that its key is refused
	}
	near.Close()
	return <-done, ofClient
}

func TestOnlyPinnedKeysSpeak(t *testing.T) {
	server, client, other := newKey(t), newKey(t), newKey(t)
	knows := func(k *pinned.Key) func(string) bool { return func(hash string) bool { return hash == k.Hash() } }
	for name, c := range map[string]struct {
		server, client *tls.Config
		refuses        string // which party, empty for none
	}{
		"both are pinned":      {server.ServerTLS(knows(client)), client.ClientTLS(server.Hash()), ""},
		"another client":       {server.ServerTLS(knows(client)), other.ClientTLS(server.Hash()), "server"},
		"another server":       {other.ServerTLS(knows(client)), client.ClientTLS(server.Hash()), "client"},
		"no certificate":       {server.ServerTLS(knows(client)), without(client.ClientTLS(server.Hash())), "server"},
		"an older TLS":         {server.ServerTLS(knows(client)), older(client.ClientTLS(server.Hash())), "server"},
		"a server without TLS": {without(server.ServerTLS(knows(client))), client.ClientTLS(server.Hash()), "server"},
	} {
		ofServer, ofClient := shake(t, c.server, c.client)
		if failed := ofServer != nil || ofClient != nil; failed != (c.refuses != "") {
			t.Errorf("%s: server %v, client %v", name, ofServer, ofClient)
		}
		by := map[string]error{"server": ofServer, "client": ofClient}[c.refuses]
		if c.refuses != "" && by == nil {
			t.Errorf("%s: the %s does not refuse: %v, %v", name, c.refuses, ofServer, ofClient)
		}
	}
}

func without(c *tls.Config) *tls.Config { c.Certificates = nil; return c }
func older(c *tls.Config) *tls.Config {
	c.MinVersion, c.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	return c
}

// A key that was kept is the same key.
func TestPEM(t *testing.T) {
	k := newKey(t)
	text, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	again, err := pinned.ParsePEM(text)
	if err != nil || again.Hash() != k.Hash() {
		t.Errorf("%v, %v", again, err)
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		strings.ReplaceAll(string(text), "PRIVATE", "EC PRIVATE")} {
		if k, err := pinned.ParsePEM([]byte(bad)); err == nil {
			t.Errorf("%q is the key %s", bad, k.Hash())
		}
	}
}

// The hash is what openssl prints, so that a client can be made of openssl and curl.
func TestTheHashIsThatOfOpenSSL(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("there is no openssl")
	}
	k := newKey(t)
	text, err := k.PEM()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("sh", "-c", "openssl pkey -in "+file+" -pubout -outform DER | openssl dgst -sha256").Output()
	if fields := strings.Fields(string(out)); err != nil || fields[len(fields)-1] != k.Hash() {
		t.Errorf("openssl says %s, %v: want %s", out, err, k.Hash())
	}
}

package answers

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/compat/distributedcatalog"
	"github.com/bourse-dev/bourse/internal/server"
)

// On loopback each call needs the token, also at the interface of a prototype that asked for none.
func TestLoopbackAsksForTheToken(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	a := New(Options{
		Listen: "127.0.0.1:0", TokenFile: filepath.Join(t.TempDir(), "token"), Log: log,
		Extend: func(ctx context.Context, next http.Handler, local *server.Server) http.Handler {
			return distributedcatalog.Connector(ctx, next, distributedcatalog.ConnectorOptions{Server: local, Log: log})
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	guarded, l, err := a.listenWithToken(a.handler(ctx))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, l, guarded) }()
	defer func() { stop(); <-served }()
	token, err := os.ReadFile(a.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, authorization string
		want                int
	}{
		{"/api/cluster/init", "", http.StatusUnauthorized},
		{"/api/catalog", "Bearer x", http.StatusUnauthorized},
		{"/api/subscribe", "", http.StatusUnauthorized},
		{"/apis/bourse.dev/v1alpha1/status", "", http.StatusUnauthorized},
		{"/api/cluster/init", "Bearer " + string(token), http.StatusOK},
	} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+c.path, nil)
		r.Header.Set("Authorization", c.authorization)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		if err != nil || answer.StatusCode != c.want {
			t.Errorf("%s with %q: %s, %v, want %d", c.path, c.authorization, answer.Status, err, c.want)
		}
		remedy := "send what is in " + a.TokenFile + " as a bearer token"
		if answer.StatusCode == http.StatusUnauthorized && !strings.Contains(string(body), remedy) {
			t.Errorf("%s does not say how to be let in: %s", c.path, body)
		}
	}
	if _, _, err := websocket.Dial(t.Context(), "ws://"+l.Addr().String()+"/api/subscribe", nil); err == nil ||
		!strings.Contains(err.Error(), "401") {
		t.Errorf("subscribed without the token: %v", err)
	}
}

// In a pod the agent listens behind a Service. Where other machines can try tokens, the token is long.
func TestListenBehindAService(t *testing.T) {
	dir := t.TempDir()
	short, made := filepath.Join(dir, "short"), filepath.Join(dir, "made")
	if err := os.WriteFile(short, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listen, file, refused string
	}{
		{"0.0.0.0:0", made, ""},
		{"[::1]:0", short, ""},
		{"0.0.0.0:0", short, "--token-file"},
		{"0.0.0.0:0", "", "--token-file"},
		{"localhost:0", made, "--listen"},
	} {
		_, l, err := New(Options{Listen: c.listen, TokenFile: c.file}).listenWithToken(http.NotFoundHandler())
		wrong, _ := err.(*api.Error)
		if c.refused == "" && err != nil || c.refused != "" && (wrong == nil || wrong.Field != c.refused) {
			t.Errorf("%s with %s: %v", c.listen, c.file, err)
		}
		if l != nil {
			_ = l.Close()
		}
	}
}

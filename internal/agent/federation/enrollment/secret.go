package enrollment

import (
	"context"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/clock"

	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// tokenKey is the key of the join token in its Secret.
const tokenKey = "token"

// watchAgain is how long a watch that broke waits.
const watchAgain = 10 * time.Second

// TokenSecret is the Secret into which an admin puts a join token. The agent needs get and watch on this one name.
type TokenSecret struct {
	// Secrets are those of Namespace.
	Secrets         typedcorev1.SecretInterface
	Namespace, Name string
	Clock           clock.Clock
}

// Read returns the token, empty if there is none.
func (s *TokenSecret) Read(ctx context.Context) (string, error) {
	secret, err := s.Secrets.Get(ctx, s.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return tokenIn(secret), nil
}

func tokenIn(secret *corev1.Secret) string { return strings.TrimSpace(string(secret.Data[tokenKey])) }

// Watch returns a channel that receives once after each change of the token, until ctx ends. A nil TokenSecret
// never changes.
func (s *TokenSecret) Watch(ctx context.Context, log *slog.Logger) <-chan struct{} {
	if s == nil {
		return nil
	}
	changed := make(chan struct{}, 1)
	go func() {
		for last := ""; ctx.Err() == nil; {
			err := s.follow(ctx, func(token string) {
				if token == last {
					return
				}
				last = token
				select {
				case changed <- struct{}{}:
				default: // it is told already
				}
			})
			if err != nil && ctx.Err() == nil {
				log.Debug("the Secret with the join token cannot be watched", "secret", s.Name, "error", err)
			}
			select {
			case <-s.Clock.After(watchAgain):
			case <-ctx.Done():
			}
		}
	}()
	return changed
}

// follow calls found with the token that there is, and with each that replaces it, until the watch breaks.
func (s *TokenSecret) follow(ctx context.Context, found func(token string)) error {
	return kubeobject.Follow(ctx, func() (watch.Interface, error) {
		return s.Secrets.Watch(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("metadata.name", s.Name).String()})
	}, nil, func(e watch.Event) error {
		secret, ok := e.Object.(*corev1.Secret)
		if !ok || secret.Name != s.Name || e.Type == watch.Deleted {
			return nil
		}
		if token := tokenIn(secret); token != "" {
			found(token)
		}
		return nil
	})
}

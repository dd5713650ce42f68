package store

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

type inSecret struct {
	secrets typedcorev1.SecretInterface
	name    string
}

// InSecret stores the identity in the Opaque Secret of this name, which the first Save creates. secrets is
// the namespace's typed client; a caching client would watch every Secret. It needs get and update on this
// name, and create.
func InSecret(secrets typedcorev1.SecretInterface, name string) Store {
	return inSecret{secrets, name}
}

func (s inSecret) Load(ctx context.Context) (Identity, error) {
	secret, err := s.secrets.Get(ctx, s.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return Identity{}, fmt.Errorf("%w: secret %s", ErrNotFound, s.name)
	}
	if err != nil {
		return Identity{}, fmt.Errorf("identity: %w", err)
	}
	identity := fromParts(secret.Data)
	identity.revision = secret.ResourceVersion
	return identity, nil
}

func (s inSecret) Save(ctx context.Context, identity *Identity) error {
	saved, err := s.write(ctx, identity)
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return fmt.Errorf("%w: secret %s", ErrConflict, s.name)
	}
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	identity.revision = saved.ResourceVersion
	return nil
}

func (s inSecret) write(ctx context.Context, identity *Identity) (*corev1.Secret, error) {
	if identity.revision == "" {
		return s.secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{"app.kubernetes.io/part-of": "bourse"}},
			Type:       corev1.SecretTypeOpaque,
			Data:       identity.parts(),
		}, metav1.CreateOptions{})
	}
	// Read to keep the labels, annotations and keys of others.
	secret, err := s.secrets.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	secret.ResourceVersion = identity.revision
	if secret.Data == nil {
		secret.Data = make(map[string][]byte)
	}
	for name, value := range identity.parts() {
		secret.Data[name] = value
	}
	return s.secrets.Update(ctx, secret, metav1.UpdateOptions{})
}

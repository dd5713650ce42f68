package peering_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
)

// handshake is both sides of a handshake. The test acts as Liqo.
type handshake struct {
	*testing.T
	rome, milan client.Client
	key         ed25519.PrivateKey // of rome's Liqo
	consumer    *peering.Consumer
	provider    *peering.Provider
	toRome      *api.Handshake
	toMilan     *api.Handshake
}

func newHandshake(t *testing.T) *handshake {
	t.Helper()
	h := &handshake{T: t, rome: newAPI(t), milan: newAPI(t)}
	h.crash()
	var err error
	if _, h.key, err = ed25519.GenerateKey(rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(h.key)
	if err != nil {
		t.Fatal(err)
	}
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: consts.AuthKeysSecretName},
		Data: map[string][]byte{
			consts.PrivateKeyField: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY",
				Bytes: der}), consts.PublicKeyField: []byte("public"),
		}}
	if err := h.rome.Create(t.Context(), keys); err != nil {
		t.Fatal(err)
	}
	return h
}

// crash lets both forget what is in no object.
func (h *handshake) crash() {
	h.consumer = &peering.Consumer{Client: h.rome, Cluster: "rome", LiqoNamespace: "liqo"}
	h.provider = &peering.Provider{Client: h.milan}
}

// step lets both do what they can, and says the one's words to the other.
func (h *handshake) step() {
	h.Helper()
	p, err := h.provider.Open(h.Context(), "rome", h.toMilan)
	if err != nil {
		h.Fatal(err)
	}
	if p.Say != nil {
		h.toRome = &api.Handshake{Session: p.Session, HandshakeContent: *p.Say}
	}
	if p, err = h.consumer.Open(h.Context(), "milan", h.toRome); err != nil {
		h.Fatal(err)
	}
	if p.Say != nil {
		h.toMilan = &api.Handshake{Session: p.Session, HandshakeContent: *p.Say}
	}
}

// secret is one of Liqo's nonces.
func (h *handshake) secret(c client.Client, namespace, name string) *corev1.Secret {
	h.Helper()
	var s corev1.Secret
	if err := c.Get(h.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &s); err != nil {
		h.Fatal(err)
	}
	return &s
}

// The nonce and its signature are in the Secrets as Liqo would have made them: what it finds there
// it keeps. Both last for one opening.
func TestTheNonce(t *testing.T) {
	h := newHandshake(t)
	look := func() (nonce, challenge string) {
		t.Helper()
		h.step()
		made, signed := h.secret(h.milan, "liqo-tenant-rome", "liqo-nonce"), h.secret(h.rome,
			"liqo-tenant-milan", "liqo-signed-nonce")
		given, tenant := made.Data[consts.NonceSecretField], h.toMilan.Tenant
		if len(given) != 88 || !bytes.Equal(given, h.toRome.Nonce.Nonce) ||
			!bytes.Equal(given, signed.Data[consts.NonceSecretField]) {
			t.Fatalf("milan's nonce is %q, rome has %q of it", given, signed.Data[consts.NonceSecretField])
		}
		if !ed25519.Verify(h.key.Public().(ed25519.PublicKey), given, tenant.Signature) ||
			!bytes.Equal(tenant.Signature, signed.Data[consts.SignedNonceSecretField]) {
			t.Errorf("rome's signature is %x", tenant.Signature)
		}
		for _, s := range []*corev1.Secret{made, signed} {
			if s.Labels[consts.RemoteClusterID] == "" ||
				s.Labels[consts.NonceSecretLabelKey]+s.Labels[consts.SignedNonceSecretLabelKey] != "true" {
				t.Errorf("Liqo would not find %s: %v", s.Name, s.Labels)
			}
		}
		return string(given), tenant.Challenge
	}
	nonce, challenge := look()
	for range 2 {
		if again, same := look(); again != nonce || same != challenge {
			t.Error("a second look is another opening")
		}
		h.crash()
	}
	if err := h.milan.Delete(t.Context(), h.secret(h.milan, "liqo-tenant-rome", "liqo-nonce")); err != nil {
		t.Fatal(err)
	}
	h.toMilan = nil
	if again, other := look(); again == nonce || other == challenge {
		t.Error("another opening has the nonce or the challenge of the one before")
	}
}

// Only nonces are signed: with the same key certificate requests are signed, and a provider could send one.
func TestNothingElseIsSigned(t *testing.T) {
	h := newHandshake(t)
	for _, given := range []string{"", "short", string(make([]byte, 88)),
		base64.StdEncoding.EncodeToString(make([]byte, 300))} {
		sum := sha256.Sum256([]byte(given))
		received := &api.Handshake{Session: hex.EncodeToString(sum[:]),
			HandshakeContent: api.HandshakeContent{Nonce: &api.HandshakeNonce{Nonce: []byte(given)}}}
		if p, err := h.consumer.Open(t.Context(), "milan", received); api.CodeOf(err) != api.CodeBadSignature ||
			p.Say != nil {
			t.Errorf("%d bytes: %+v, %v", len(given), p, err)
		}
	}
}

var aws = authv1beta1.AwsConfig{AwsAccessKeyID: "AKIA", AwsSecretAccessKey: "very-secret",
	AwsRegion: "eu-south-1", AwsClusterName: "milan"}

// issue takes the handshake to where milan's Liqo has issued an identity on EKS.
func (h *handshake) issue() {
	h.Helper()
	h.step()
	h.step()
	var tenant authv1beta1.Tenant
	if err := h.milan.Get(h.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "rome"},
		&tenant); err != nil {
		h.Fatal(err)
	}
	config := aws
	tenant.Status.TenantNamespace, tenant.Status.AuthParams = "liqo-tenant-rome", &authv1beta1.AuthParams{CA: []byte("ca"),
		APIServer: "https://eks", AwsConfig: &config}
	if err := h.milan.Status().Update(h.Context(), &tenant); err != nil {
		h.Fatal(err)
	}
}

func (h *handshake) identity() *authv1beta1.Identity {
	h.Helper()
	var list authv1beta1.IdentityList
	if err := h.rome.List(h.Context(), &list); err != nil {
		h.Fatal(err)
	}
	if len(list.Items) == 0 {
		return nil
	}
	return &list.Items[0]
}

// The access key of a provider on EKS reaches the consumer's Liqo, and nobody who relays it.
func TestTheIdentityOfEKSIsSealed(t *testing.T) {
	h := newHandshake(t)
	h.issue()
	h.step()
	relayed, err := json.Marshal(h.toRome)
	if err != nil || bytes.Contains(relayed, []byte("very-secret")) || bytes.Contains(relayed, []byte("AKIA")) {
		t.Fatalf("what is relayed says %s, %v", relayed, err)
	}
	id := h.identity()
	if id == nil || id.Spec.AuthParams.AwsConfig == nil || *id.Spec.AuthParams.AwsConfig != aws {
		t.Fatalf("the identity is %+v", id)
	}
}

// Liqo is not told to call an API server at an address that this cluster calls for nobody.
func TestAnAPIServerThatIsNotCalled(t *testing.T) {
	h := newHandshake(t)
	var named []string
	h.consumer.Allows = func(_ context.Context, url string) error {
		named = append(named, url)
		return api.Errorf(api.CodeUnreachable, "not there")
	}
	h.issue()
	p, err := h.provider.Open(t.Context(), "rome", h.toMilan)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.consumer.Open(t.Context(), "milan", &api.Handshake{Session: p.Session,
		HandshakeContent: *p.Say}); api.CodeOf(err) != api.CodeUnreachable || len(named) == 0 {
		t.Errorf("%v, asked of %q", err, named)
	}
	if id := h.identity(); id != nil {
		t.Errorf("Liqo is told of %s", id.Spec.AuthParams.APIServer)
	}
}

// What is changed, or sealed for another opening, is not opened, and nothing is made of it.
func TestASealThatDoesNotFit(t *testing.T) {
	for name, spoil := range map[string]func(*api.Handshake){
		"changed": func(m *api.Handshake) { m.Identity.Sealed[100] ^= 1 },
		"cut":     func(m *api.Handshake) { m.Identity.Sealed = m.Identity.Sealed[:10] },
		"of another opening": func(m *api.Handshake) {
			other := newHandshake(t)
			other.issue()
			other.step()
			m.Identity.Sealed = other.toRome.Identity.Sealed
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHandshake(t)
			h.issue()
			p, err := h.provider.Open(t.Context(), "rome", h.toMilan)
			if err != nil || p.Say.Identity == nil {
				t.Fatalf("%+v, %v", p, err)
			}
			said := &api.Handshake{Session: p.Session, HandshakeContent: *p.Say}
			spoil(said)
			if _, err := h.consumer.Open(t.Context(), "milan", said); api.CodeOf(err) != api.CodeBadSignature {
				t.Errorf("%v", err)
			}
			if id := h.identity(); id != nil {
				t.Errorf("made %+v", id)
			}
		})
	}
}

// A consumer that says no key, or none that is one, gets no secret, and is told why.
func TestNoKeyToSealTo(t *testing.T) {
	for _, to := range [][]byte{nil, []byte("x")} {
		h := newHandshake(t)
		h.issue()
		h.toMilan.Tenant.SealTo = to
		if p, err := h.provider.Open(t.Context(), "rome", h.toMilan); api.CodeOf(err) != api.CodeInvalid {
			t.Errorf("%+v, %v", p, err)
		}
	}
}

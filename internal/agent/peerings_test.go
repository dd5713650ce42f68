package agent

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/liqo/network"
	"github.com/bourse-dev/bourse/internal/liqo/offload"
	"github.com/bourse-dev/bourse/internal/liqo/peering"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// prepares is rome, which has a hold at milan, and whose Liqo the test plays.
type prepares struct {
	*testing.T
	client.Client
	ledger   *exchange.Exchange
	said     *counting
	peerings *peerings
}

// newPrepares makes one; milan may be legacy.
func newPrepares(t *testing.T, legacy bool) *prepares {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithScheme(Scheme()).WithStatusSubresource(&api.Peering{}).WithObjects(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: consts.AuthKeysSecretName},
		Data:       map[string][]byte{consts.PrivateKeyField: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})},
	}).Build()
	ledger, broker, milan := newLedger(t, log), &counting{}, transporttest.NewParty(t, "milan")
	if _, err := ledger.Do(t.Context(), market.Pin{Cluster: "milan", Key: milan.Key.Public().String(), Legacy: legacy}); err != nil {
		t.Fatal(err)
	}
	post := &letters{cluster: "rome", key: transporttest.NewParty(t, "rome").Key, market: ledger, broker: broker, log: log, heard: map[string]*api.Handshake{}, said: map[string]said{}}
	net := &network.Network{Client: c, Reader: c, Cluster: "rome", LiqoNamespace: "liqo"}
	p := &peerings{
		Client: c, cluster: "rome", namespace: "bourse", market: ledger, letters: post, log: log, network: net, linger: time.Hour, abandon: time.Hour, paces: map[string]pace{},
		standings: &standings{events: events.NewFakeRecorder(100), said: map[string]api.MemberState{}},
		borrow: &borrow{
			Client: c, cluster: "rome", market: ledger, broker: broker, network: net, networks: map[string]network.Standing{}, suspended: map[string]suspension{}, waits: map[string]waiting{},
			peering: &peering.Consumer{Client: c, Cluster: "rome", LiqoNamespace: "liqo"},
			slices:  &offload.Slices{Client: c, Reader: c, LiqoNamespace: "liqo"}, namespaces: &offload.Namespaces{Client: c, Cluster: "rome"},
		},
	}
	post.heard["milan.provider"] = &api.Handshake{Session: peeringSession, Expires: metav1.NewTime(time.Now().Add(time.Hour)), HandshakeContent: api.HandshakeContent{
		Nonce: &api.HandshakeNonce{Nonce: []byte("nonce")}, Identity: &api.HandshakeIdentity{Namespace: "n", APIServer: "https://milan"},
	}}
	return &prepares{t, c, ledger, broker, p}
}

// peeringSession is that of the nonce "nonce".
const peeringSession = "78377b525757b494427f89014f97d79928f3938d14eb51e20fb5dec9834eb304"

// becomes notes the reservation in a state.
func (p *prepares) becomes(state api.State, change func(*market.Reservation)) {
	p.Helper()
	size, err := market.Need("size", transporttest.Request("1").Resources)
	if err != nil {
		p.Fatal(err)
	}
	end := market.At(time.Now().Add(time.Hour))
	r := &market.Reservation{ID: "r-1", State: state, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size, Generation: 1, HeldUntil: end, Deadline: end, Until: end}
	change(r)
	if _, err := p.ledger.Do(p.Context(), market.Note{Reservation: r}); err != nil {
		p.Fatal(err)
	}
}

// look looks at the peering a few times, and says whether there is an object.
func (p *prepares) look(o client.Object, namespace, name string) bool {
	p.Helper()
	for range 6 {
		if _, err := p.peerings.Reconcile(p.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "bourse", Name: "milan.provider"}}); err != nil {
			p.Fatal(err)
		}
	}
	err := p.Get(p.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		p.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// While a hold lasts that rome has signed, the nonce is signed, and nothing is asked of milan and nothing made of what it says: that
// is for when both are bound. If it comes to nothing, it goes at once, without lingering.
func TestAPeeringIsPrepared(t *testing.T) {
	p := newPrepares(t, false)
	p.becomes(api.Held, func(*market.Reservation) {})
	if p.look(&api.Peering{}, "bourse", "milan.provider") {
		t.Fatal("a peering for what nobody has signed")
	}
	p.becomes(api.Held, func(r *market.Reservation) { r.Assignment = "signed" })
	nonce := &corev1.Secret{}
	if !p.look(nonce, "liqo-tenant-milan", "liqo-signed-nonce") {
		t.Fatal("the nonce is not there for Liqo to sign")
	}
	nonce.Data[consts.SignedNonceSecretField] = []byte("signed")
	if err := p.Update(t.Context(), nonce); err != nil {
		t.Fatal(err)
	}
	if p.look(nonce, "liqo-tenant-milan", "liqo-signed-nonce"); p.said.said > 0 {
		t.Error("a Tenant is asked for before both are bound")
	}
	identities := &authv1beta1.IdentityList{}
	if err := p.List(t.Context(), identities); err != nil || meta.LenList(identities) > 0 {
		t.Errorf("%d Identities, %v", meta.LenList(identities), err)
	}
	p.peerings.letters.heard["milan.provider"].Identity = nil
	p.becomes(api.Reserved, func(r *market.Reservation) { r.Assignment, r.Acceptance = "signed", "accepted" })
	if p.look(nonce, "liqo-tenant-milan", "liqo-signed-nonce"); p.said.said != 1 {
		t.Errorf("once both are bound a Tenant is asked for %d times", p.said.said)
	}
}

func TestWhatWasPreparedForNothingGoesAtOnce(t *testing.T) {
	p := newPrepares(t, false)
	p.becomes(api.Held, func(r *market.Reservation) { r.Assignment = "signed" })
	if !p.look(&api.Peering{}, "bourse", "milan.provider") {
		t.Fatal("nothing is prepared")
	}
	p.becomes(api.Failed, func(r *market.Reservation) { r.Assignment = "signed" })
	if p.look(&api.Peering{}, "bourse", "milan.provider") {
		t.Error("the Peering stays")
	}
	if p.look(&corev1.Secret{}, "liqo-tenant-milan", "liqo-signed-nonce") || p.look(&corev1.Namespace{}, "", "liqo-tenant-milan") {
		t.Error("something of it stays")
	}
}

// With a cluster whose agent is of the prototypes only people can peer.
func TestNoPeeringWithALegacyCluster(t *testing.T) {
	p := newPrepares(t, true)
	p.becomes(api.Reserved, func(r *market.Reservation) { r.Assignment, r.Acceptance = "signed", "accepted" })
	if p.look(&api.Peering{}, "bourse", "milan.provider") {
		t.Error("a handshake begins that the other cluster does not know")
	}
}

package localapi

import (
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

// A reservation of a VirtualNodePool is neither released nor changed: the pool decides.
func TestReservationsOfPools(t *testing.T) {
	c, _ := newCluster(t)
	object := &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "burst-aaaaa",
		Labels: map[string]string{api.VirtualNodePoolLabel: "burst"}}}
	if err := c.o.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	now := c.o.Ledger.Now()
	size, _ := amounts.ParseRequest("", transporttest.CPU("2"))
	note := market.Note{Reservation: &market.Reservation{
		ID: "r-1", State: api.Active, Consumer: "rome", Provider: "milan", Pool: api.GeneralPool, Size: size, Assignment: "a",
		Created: now, Until: now + 3_600_000,
		Object: &market.Object{Namespace: "default", Name: "burst-aaaaa", UID: string(object.UID)},
	}}
	if _, err := c.o.Ledger.Do(t.Context(), note); err != nil {
		t.Fatal(err)
	}
	released := c.ReleaseReservation(t.Context(), "r-1", api.Release{})
	_, changed := c.ChangeReservation(t.Context(), "r-1", api.ReservationChange{Resources: transporttest.CPU("4")})
	for what, err := range map[string]error{"release": released, "change": changed} {
		if api.CodeOf(err) != api.CodeConflict || !strings.Contains(err.Error(), "belongs to VirtualNodePool burst") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// Stopping a pool with volumes needs their digest. Then the pool has the word, before it is deleted.
func TestStoppingAPoolWithVolumes(t *testing.T) {
	c, _ := newCluster(t)
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "burst", Finalizers: []string{api.VirtualNodesFinalizer}}}
	if err := c.o.Client.Create(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	pool.Status.Providers = []api.PoolProvider{
		{Name: "milan", State: "Ready", Volumes: []string{"team/a", "team/b"}, VolumesDigest: "aa"},
		{Name: "oslo", State: "Ready"}, {Name: "paris", State: "Ready", Volumes: []string{"team/c"}, VolumesDigest: "cc"},
	}
	if err := c.o.Client.Status().Update(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	read := func() *api.VirtualNodePool {
		t.Helper()
		var p api.VirtualNodePool
		if err := c.o.Client.Get(t.Context(), client.ObjectKeyFromObject(pool), &p); err != nil {
			t.Fatal(err)
		}
		return &p
	}
	for _, word := range []string{"", "aa", "cc,aa"} {
		err := c.StopVirtualNodePool(t.Context(), "burst", word)
		if e, _ := errors.AsType[*api.Error](err); e == nil || e.Code != api.CodeVolumesAtStake ||
			e.Volumes.Digest != "aa,cc" || e.Volumes.Count != 3 || read().DeletionTimestamp != nil {
			t.Errorf("with %q: %v", word, err)
		}
	}
	for range 2 { // it may be repeated
		if err := c.StopVirtualNodePool(t.Context(), "burst", "aa,cc"); err != nil {
			t.Error(err)
		}
	}
	if p := read(); p.DeletionTimestamp == nil || p.Annotations[api.VolumesMayDie] != "aa,cc" {
		t.Errorf("it is %+v", p)
	}
}

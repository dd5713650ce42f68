package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
	"github.com/bourse-dev/bourse/internal/broker"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/journal/sqlite"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server/servertest"
	"github.com/bourse-dev/bourse/internal/transport/transporttest"
)

const (
	hostileMembers = 20
	mostMemory     = 1 << 30
	mostDisk       = 2 << 30
)

// foe is a member that sends the largest of everything.
type foe struct {
	*servertest.Member
	t      *testing.T
	friend *foe // its accomplice, which accepts what it asks for
	n      int
	last   api.Sequence // of its advertisement
	url    string
	caps   market.Caps
	bound  []string
	now    func() time.Time
	served map[api.Code]int
}

// Twenty members that send the largest of everything, with accomplices among themselves, take no
// more than 1 GiB of memory and 2 GiB of disk in an hour. A member that behaves is served all the
// time.
//
// The hour is simulated. First all members fill what they may have, as fast as this machine lets
// them: what the server makes of a call goes to the market at once, without the rate limit. Then
// every third minute has a burst of calls through the server.
func TestHostileMembersAreBounded(t *testing.T) {
	const minutes = 60
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(mostMemory * 3 / 4))
	dir, clock := t.TempDir(), transporttest.NewClock()
	caps := market.Caps{Reservations: broker.DefaultReservations,
		Pending: broker.DefaultPending, Bytes: broker.DefaultBytes}
	f := servertest.Start(t, servertest.Options{Clock: clock,
		Journal: sqlite.New(filepath.Join(dir, broker.JournalFile)), Caps: caps})
	now := func() time.Time { return f.Exchange.Now().Go() }
	honest, lender := f.Join("honest"), f.Join("lender")
	lender.Advertise("1000")
	foes := make([]*foe, hostileMembers)
	for i := range foes {
		foes[i] = &foe{Member: f.Join(fmt.Sprintf("foe-%02d", i)),
			t: t, url: f.URL, caps: caps, now: now, served: map[api.Code]int{}}
	}
	for i, one := range foes {
		one.friend = foes[(i+1)%len(foes)]
		one.advertise()
	}
	peak := &peak{t: t, dir: dir}
	all := func(do func(*foe)) {
		var wait sync.WaitGroup
		for _, one := range foes {
			wait.Go(func() { do(one) })
		}
		wait.Wait()
		peak.look()
	}
	begin := time.Now()
	all(func(one *foe) { one.list(40_000); one.list(15_000) })
	all(func(one *foe) { one.cancel(f.Exchange, 200) })
	for range 12 { // all that they may have bound, and more
		all(func(one *foe) { one.bind(f.Exchange, 50) })
		clock.Move(2*time.Second, now)
	}
	t.Logf("filled (%v) in %s: %s", foes[0].served, time.Since(begin).Round(time.Second), peak)
	for minute := range minutes {
		all(func(one *foe) { one.free(f.Exchange, 3); one.bind(f.Exchange, 2) })
		if minute%3 == 0 { // each costs this machine a second
			all((*foe).everything)
		}
		r, err := honest.Reserve(t.Context(), fmt.Sprint("honest-", minute), transporttest.Request("1"))
		if err != nil || r.Payload.State != api.Held {
			t.Fatalf("minute %d: an honest member gets %s, %v", minute, r.Payload.State, err)
		}
		for range 2 {
			clock.Move(29*time.Second, now)
			lender.Advertise("1000")
		}
		all((*foe).renew)
		clock.Move(2*time.Second, now)
	}
	t.Logf("after %d minutes, in %s: %s", minutes, time.Since(begin).Round(time.Second), peak)
	served := map[api.Code]int{}
	for _, one := range foes {
		for code, n := range one.served {
			served[code] += n
		}
	}
	t.Logf("answers by code: %v", served)
	if foes[0].last.Number == 0 {
		t.Error("what a foe lists was not taken")
	}
	if served[api.CodeCapReached] == 0 || served[""] == 0 || served[api.CodeTooLarge] == 0 ||
		served[api.CodeInvalid] == 0 {
		t.Errorf("not all bounds were reached: %v", served)
	}
	if err := f.Exchange.Read(t.Context(), func(s *market.State) {
		if kept := s.MemoryUse(); kept.Largest > broker.DefaultBytes ||
			kept.Largest < broker.DefaultBytes/2 || kept.Early == 0 || s.Imbalance() != 0 {
			t.Errorf("%+v, imbalance %d", kept, s.Imbalance())
		}
	}); err != nil {
		t.Error(err)
	}
}

// names are names of resources as long as one request may have together.
func names() (all []corev1.ResourceName) {
	for i := range 15 {
		all = append(all, corev1.ResourceName(fmt.Sprintf("%s.example.com/%s-%02d",
			strings.Repeat(strings.Repeat("d", 60)+".", 2)+"d", strings.Repeat("n", 59), i)))
	}
	return all
}

func (x *foe) said(err error) {
	if err == nil {
		x.served[""]++
		return
	}
	if x.served[api.CodeOf(err)]++; x.served[api.CodeOf(err)] == 1 && x.ID == "foe-00" {
		x.t.Logf("%.300s", err)
	}
	if api.CodeOf(err) == api.CodeInternal {
		x.t.Error(err)
	}
}

// largest is a large request that only the accomplice can serve.
func (x *foe) largest(of int64) api.Request {
	x.n++
	r := api.Request{Resources: api.Resources{}, Target: x.friend.ID,
		Properties: map[string]string{}, Pool: api.GeneralPool}
	for _, name := range names() {
		r.Resources[name] = *resource.NewQuantity(of, resource.DecimalSI)
	}
	r.Where = fmt.Sprintf("%d > 0 || '%s' == region", x.n, strings.Repeat("w", 1900))
	for i := range 64 {
		r.Exclude = append(r.Exclude, fmt.Sprintf("%s-%d", strings.Repeat("e", 58), i))
	}
	return r
}

// advertise offers what the accomplice asks for.
func (x *foe) advertise() {
	x.said(x.PutAdvertisement(context.Background(), x.ID, x.measurement()))
}

func (x *foe) measurement() api.Measurement {
	all := api.Resources{}
	for _, name := range names() {
		all[name] = *resource.NewQuantity(1<<30, resource.DecimalSI)
	}
	m := x.Measurement("0")
	m.Pools[api.GeneralPool] = api.Pool{Capacity: all, Allocatable: all, Shared: all}
	return m
}

// list advertises so many commitments. They are written as they are sent, because what the foes
// keep counts in this process, too.
func (x *foe) list(commitments int) {
	const consumers = 1000
	m := x.measurement()
	pool := m.Pools[api.GeneralPool]
	pool.Accounts = map[string]api.AccountUse{"c-000": {}}
	m.Pools[api.GeneralPool] = pool
	whole, err := json.Marshal(m)
	if err != nil {
		x.t.Error(err)
		return
	}
	body, to := io.Pipe()
	go func() {
		out := bufio.NewWriter(to)
		before, accounts, _ := strings.Cut(string(whole), `"c-000":{}`)
		_, _ = out.WriteString(before)
		for i := range consumers {
			_, _ = fmt.Fprintf(out, `%s"c-%03d":{`, map[bool]string{false: ","}[i == 0], i)
			x.writeCommitments(out, i, commitments/consumers)
			_, _ = out.WriteString("}")
		}
		_, _ = out.WriteString(accounts)
		_ = to.CloseWithError(out.Flush())
	}()
	defer body.Close()
	request, err := http.NewRequest(http.MethodPut, x.url+api.Prefix+"/clusters/"+x.ID+"/advertisement", body)
	if err != nil {
		x.t.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/json")
	answer, err := x.HTTP.Do(request)
	if err != nil {
		x.said(err)
		return
	}
	defer answer.Body.Close()
	if answer.StatusCode < 300 {
		x.said(nil)
		x.last = m.Sequence
		return
	}
	refused := new(api.Error)
	if err := json.NewDecoder(answer.Body).Decode(refused); err != nil {
		x.t.Errorf("%d: %v", answer.StatusCode, err)
	}
	x.said(refused)
}

// writeCommitments writes the commitments to one consumer.
func (x *foe) writeCommitments(to io.Writer, account, n int) {
	for i := range n {
		_, _ = fmt.Fprintf(to, `%s"r-%d-%d":{"cpu":"1m"}`, map[bool]string{true: `"commitments":{`, false: ","}[i == 0], account, i)
	}
	for i := range n {
		_, _ = fmt.Fprintf(to, `%s"r-%d-%d":{"offer":"o","plan":"p","units":1}`, map[bool]string{true: `},"sold":{`, false: ","}[i == 0], account, i)
	}
	_, _ = io.WriteString(to, "}")
}

// renew repeats its advertisement.
func (x *foe) renew() {
	next := x.last
	next.Number++
	err := x.PatchAdvertisement(context.Background(), x.ID, api.MeasurementDelta{Base: x.last, Sequence: next})
	if x.said(err); err == nil {
		x.last = next
	}
}

// bind makes so many reservations that both sides are bound by, as the server does with what both
// send: their documents are as long.
func (x *foe) bind(books *exchange.Exchange, n int) {
	ctx := context.Background()
	for range n {
		hold := x.hold(1)
		_, err := books.Do(ctx, hold)
		if err == nil {
			document := strings.Repeat("d", 28<<10)
			_, err = books.Do(ctx, market.Confirm{ID: hold.ID, Consumer: x.ID, Generation: 1, Document: document})
		}
		if err == nil {
			_, err = books.Do(ctx, market.Accept{ID: hold.ID, Provider: x.friend.ID,
				Generation: 1, Document: strings.Repeat("a", 800)})
		}
		if x.said(err); err != nil {
			return
		}
		x.bound = append(x.bound, hold.ID)
	}
}

// hold is the command that the server makes of the largest request.
func (x *foe) hold(of int64) *market.Hold {
	asked := x.largest(of)
	size, err := amounts.ParseRequest("resources", asked.Resources)
	if err != nil {
		x.t.Error(err)
	}
	return &market.Hold{
		ID: fmt.Sprintf("%s-%d", x.ID, x.n), Key: fmt.Sprint("key-",
			x.n), Digest: "d", Consumer: x.ID, Request: &asked, Pool: asked.Pool,
		Size: size, Duration: 8000 * time.Hour, Candidates: []string{x.friend.ID},
		Decision: &api.Decision{Considered: 20, Candidates: 1}, Caps: x.caps,
	}
}

// cancel asks for so much and cancels it.
func (x *foe) cancel(books *exchange.Exchange, n int) {
	for range n {
		hold := x.hold(1)
		_, err := books.Do(context.Background(), hold)
		if err == nil {
			_, err = books.Do(context.Background(), market.Release{ID: hold.ID, By: x.ID, Generation: 1})
		}
		x.said(err)
	}
}

// free ends so many of what it has bound.
func (x *foe) free(books *exchange.Exchange, n int) {
	for ; n > 0 && len(x.bound) > 0; n-- {
		id := x.bound[0]
		x.bound = x.bound[1:]
		_, err := books.Do(context.Background(), market.Release{ID: id,
			By: x.ID, Generation: 1, Reason: api.ReasonReleased, Document: strings.Repeat("e", 700)})
		x.said(err)
		_, err = books.Do(context.Background(), market.Free{ID: id, Provider: x.friend.ID})
		x.said(err)
	}
}

// everything is some of all that a member can send.
func (x *foe) everything() {
	ctx := context.Background()
	for range 1 {
		r, err := x.Reserve(ctx, fmt.Sprint("cancelled-", x.n), x.largest(1))
		if x.said(err); err == nil && r.Payload.State == api.Held {
			_, err = x.Release(ctx, r.ID, x.End(r, api.ReasonReleased))
			x.said(err)
		}
		_, err = x.Reserve(ctx, fmt.Sprint("rejected-", x.n), x.largest(1<<40))
		x.said(err)
		waits := x.largest(1 << 40)
		waits.Wait = &metav1.Duration{Duration: 5 * time.Minute}
		_, err = x.Reserve(ctx, fmt.Sprint("waits-", x.n), waits)
		x.said(err)
	}
	x.n++
	offer := transporttest.WebOffer("1")
	offer.Description = strings.Repeat("x", 1000)
	offer.Labels = map[string]string{}
	for i := range 30 {
		offer.Labels[fmt.Sprintf("%s-%02d", strings.Repeat("l", 59), i)] = strings.Repeat("v", 63)
	}
	for i := range 14 {
		plan := offer.Plans[1]
		plan.Name = fmt.Sprintf("%s-%d", strings.Repeat("p", 60), i)
		offer.Plans = append(offer.Plans, plan)
	}
	for i := range 14 {
		name := fmt.Sprintf("offer-%d-%d", x.n, i)
		x.said(x.PublishOffer(ctx, x.ID, name, x.SignOffer(name, 1, offer)))
	}
	text := strings.Repeat("x", 256)
	p := api.Properties{Region: text, Zones: make([]string, 64), GPUs: make([]string, 64), Labels: map[string]string{}}
	for i := range 64 { // 48 KiB as it is sent
		p.Zones[i], p.GPUs[i] = text[:192], text[:128]
		p.Labels[fmt.Sprintf("%s%02d", text[:64], i)] = text[:192]
	}
	x.Rotate()
	x.Rotations = x.Rotations[max(0, len(x.Rotations)-api.MaxRotations):]
	x.said(x.PutCard(ctx, x.ID, x.Card(p)))
	h := api.Handshake{
		Protocol: api.Protocol, From: x.ID, FromKey: x.Key.Public().Fingerprint().String(), To: x.friend.ID, ToKey: x.friend.Key.Public().Fingerprint().String(),
		Consumer: x.ID, Session: strings.Repeat("s", 10<<10), Expires: transporttest.Seconds(x.now().Add(time.Minute)),
	}
	x.said(x.SendHandshake(ctx, x.friend.ID, x.Sign(api.DocumentHandshake, h)))
	answer, err := x.HTTP.Get(x.url + api.Prefix + "/reservations?limit=50")
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	x.said(err)
}

// peak is the most that was seen of memory and disk.
type peak struct {
	t            *testing.T
	dir          string
	memory, disk atomic.Int64
}

func (p *peak) String() string {
	return fmt.Sprintf("at most %d MiB of memory and %d MiB of disk", p.memory.Load()>>20, p.disk.Load()>>20)
}

func (p *peak) look() {
	p.t.Helper()
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	metrics.Read(samples)
	memory, disk := int64(samples[0].Value.Uint64()-samples[1].Value.Uint64()), int64(0)
	_ = filepath.WalkDir(p.dir, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				disk += info.Size()
			}
		}
		return nil
	})
	p.memory.Store(max(p.memory.Load(), memory))
	p.disk.Store(max(p.disk.Load(), disk))
	if memory > mostMemory || disk > mostDisk {
		var heap runtime.MemStats
		runtime.ReadMemStats(&heap)
		p.t.Fatalf("%d MiB of memory (heap %d) and %d MiB of disk", memory>>20, heap.HeapAlloc>>20, disk>>20)
	}
}

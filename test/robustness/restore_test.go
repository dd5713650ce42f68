package robustness

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/identity/tlsid"
	"github.com/bourse-dev/bourse/test/robustness/member"
)

// A backup of the journal that was put back lacks what was acknowledged since. The broker sees it
// and refuses; an operator accepts the loss; the agents keep what they hold, and nothing of it is
// sold again.
func TestJournalPutBack(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	rome := startCluster(t, b.operator, "rome", "4", false)
	milan := startCluster(t, b.operator, "milan", "8", true)
	paris := b.join("paris")
	watch := follow(t, paris)
	watch.begins()
	reserved(t, b, "0")
	first := agreed(rome, milan, "first", 2000)
	lineage := all(t, b.operator)[first].Payload.Fence.Lineage

	b.stop()
	backup, err := os.ReadFile(b.journal())
	if err != nil {
		t.Fatal(err)
	}
	b.start()
	reserved(t, b, "2")
	second := agreed(rome, milan, "second", 3000)
	b.stop()
	if err := os.WriteFile(b.journal(), backup, 0o600); err != nil {
		t.Fatal(err)
	}
	said := b.refused()
	for _, want := range []string{"refused", "was committed", "bourse broker journal accept-loss"} {
		if !strings.Contains(said, want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
	rome.connected(false)
	milan.connected(false)
	if gone := bound(rome, milan, first, second); gone != nil {
		t.Errorf("while the broker was away: %s", gone)
	}

	if out, err := acceptLoss(b); err != nil || !strings.Contains(out, "lineage") {
		t.Fatalf("accept-loss: %v: %s", err, out)
	}
	b.start()
	rome.connected(true)
	milan.connected(true)
	if err := paris.Offer(t.Context(), nil); err != nil { // nothing is refused for good before every cluster was heard
		t.Fatal(err)
	}
	reserved(t, b, "5") // both, though the broker has only heard of one
	agreed(rome, milan, "third", 1000)
	rome.request("fourth", 3000) // would fit if the second one were forgotten
	rome.becomes("fourth", api.Rejected)
	if gone := bound(rome, milan, first, second); gone != nil {
		t.Errorf("after the broker came back: %s", gone)
	}
	known := all(t, b.operator)
	if known[first].Payload.Fence.Lineage == lineage || known[first].ID == "" {
		t.Errorf("the lineage is still %s", lineage)
	}
	b.adopts(second)
	eventually(t, "members start again, with a whole snapshot", func(context.Context) bool {
		watch.mu.Lock()
		defer watch.mu.Unlock()
		return watch.whole == 2
	})
	b.balanced()
}

// A backup of a running broker, kept in a file, makes a broker on PostgreSQL, and a backup of that
// one on a file again. Each time what was agreed after the backup is kept by the agents and counts,
// though the broker does not know it.
func TestRestoredFromBackup(t *testing.T) {
	server := startPostgres(t)
	_, database := server.Schema(t)
	b := newProcess(t)
	b.start()
	rome := startCluster(t, b.operator, "rome", "4", false)
	milan := startCluster(t, b.operator, "milan", "16", true)
	rome.connected(true)
	reserved(t, b, "0")
	b.keepsItsCA()
	ids := []string{agreed(rome, milan, "before", 2000)}
	total := 2
	for round, store := range []string{database, ""} {
		backup := b.backedUp()
		lineage := all(t, b.operator)[ids[0]].Payload.Fence.Lineage
		after := agreed(rome, milan, fmt.Sprint("after-", round), 3000)
		total += 3
		reserved(t, b, fmt.Sprint(total))
		b.restore(backup, fmt.Sprint("lost-", round), store)
		if out, err := b.bourse("broker", "verify", "--dir", filepath.Join(b.dir, "data"), "--store", store); err != nil ||
			!strings.Contains(out, "members       2") {
			t.Fatalf("verify: %v: %s", err, out)
		}
		b.start()
		rome.connected(true)
		milan.connected(true)
		reserved(t, b, fmt.Sprint(total)) // all, though the broker has not heard of the last one
		if gone := bound(rome, milan, append(ids, after)...); gone != nil {
			t.Errorf("after the broker came back: %s", gone)
		}
		known := all(t, b.operator)
		if known[ids[0]].ID == "" || known[ids[0]].Payload.Fence.Lineage == lineage {
			t.Errorf("the lineage is still %s", lineage)
		}
		b.adopts(after)
		b.balanced()
		ids = append(ids, after, agreed(rome, milan, fmt.Sprint("next-", round), 1000))
		total++
		reserved(t, b, fmt.Sprint(total))
	}
	rome.request("too-much", 8000) // would fit if what the broker does not know were forgotten
	rome.becomes("too-much", api.Rejected)
}

// Nobody has signed what waited in the queue, so the restored broker cannot learn it: agents ask again.
func TestRestoredWhileARequestWaits(t *testing.T) {
	t.Parallel()
	b := newProcess(t)
	b.start()
	rome := startCluster(t, b.operator, "rome", "4", false)
	milan := startCluster(t, b.operator, "milan", "4", true)
	rome.connected(true)
	milan.connected(true)
	reserved(t, b, "0")
	backup := b.backedUp()
	request := api.Request{Resources: cpu(6000), Wait: &metav1.Duration{Duration: time.Hour}}
	if _, err := rome.people.MakeRequest(t.Context(), api.RequestCreate{Name: "patient", Request: request}); err != nil {
		t.Fatal(err)
	}
	before := rome.becomes("patient", api.Pending)
	b.restore(backup, "lost", "")
	b.start()
	eventually(t, "the request waits again", func(ctx context.Context) bool {
		r, err := rome.people.Request(ctx, "default", "patient")
		now := all(t, b.operator)[r.Payload.Status.Reservation]
		return err == nil && r.Payload.Status.Reservation != before && now.Payload.State == api.Pending
	})
}

// A join token that was used after the backup is void in the broker that is made of it, and so is
// one that nobody has used. The same holds for a journal that was put back. The operator sees the
// members that are back. One of them had been revoked.
func TestRestoredTokensAreVoid(t *testing.T) {
	t.Parallel()
	for name, putBack := range map[string]func(*process) (undo func() string){
		"a backup": func(b *process) func() string {
			backup := b.backedUp()
			return func() string { return b.restore(backup, "lost", "") }
		},
		"a copy of the journal": func(b *process) func() string {
			b.stop()
			good, err := os.ReadFile(b.journal())
			if err != nil {
				b.t.Fatal(err)
			}
			b.start()
			return func() string {
				b.stop()
				if err := os.WriteFile(b.journal(), good, 0o600); err != nil {
					b.t.Fatal(err)
				}
				out, err := acceptLoss(b)
				if err != nil {
					b.t.Fatalf("accept-loss: %v: %s", err, out)
				}
				return out
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newProcess(t)
			b.start()
			rome := b.join("rome")
			b.join("milan")
			var tokens []string
			for range 2 {
				token, err := b.operator.CreateToken(t.Context(), "", time.Hour)
				if err != nil {
					t.Fatal(err)
				}
				tokens = append(tokens, token.Token)
			}
			undo := putBack(b)
			if _, err := member.Join(t, "paris", tokens[0], time.Now()); err != nil {
				t.Fatal(err)
			}
			b.operate(t, "", "revoke", "milan", "--yes")
			out := undo()
			for _, want := range []string{"milan", "rome", "Active", "bourse broker revoke",
				"are void (2)", "bourse broker token create"} {
				if !strings.Contains(out, want) {
					t.Errorf("it does not say %q:\n%s", want, out)
				}
			}
			if strings.Contains(out, "paris") {
				t.Errorf("it names a cluster that joined later:\n%s", out)
			}
			b.start()
			for _, token := range tokens {
				_, err := member.Join(t, "oslo", token, time.Now())
				if api.CodeOf(err) != api.CodeTokenSpent || !strings.Contains(err.Error(), "bourse broker token create") {
					t.Errorf("somebody joins with a token of the backup: %v", err)
				}
			}
			if m, err := b.operator.Members(t.Context()); err != nil || len(m) != 2 {
				t.Errorf("the members are %+v, %v", m, err)
			}
			if err := rome.ShowCard(t.Context()); err != nil { // a member stays one
				t.Error(err)
			}
			b.join("oslo")
		})
	}
}

// backedUp makes a backup, and returns its folder.
func (b *process) backedUp() string {
	b.t.Helper()
	backup := filepath.Join(b.dir, "backup")
	if out, err := b.bourse("broker", "backup", backup, "--force"); err != nil {
		b.t.Fatalf("backup: %v: %s", err, out)
	}
	return backup
}

// restore kills the broker, puts its folder aside as lost, and makes another of a backup, with this store.
func (b *process) restore(backup, lost, store string) (said string) {
	b.t.Helper()
	b.kill()
	data := filepath.Join(b.dir, "data")
	if err := os.Rename(data, filepath.Join(b.dir, lost)); err != nil {
		b.t.Fatal(err)
	}
	b.store = store
	said, err := b.bourse("broker", "restore", backup, "--dir", data, "--store", store)
	if err != nil || !strings.Contains(said, "restored: ") {
		b.t.Fatalf("restore: %v: %s", err, said)
	}
	return said
}

// adopts waits until the broker has taken in, from those who signed it, a reservation that its
// journal has lost.
func (b *process) adopts(id string) {
	b.t.Helper()
	eventually(b.t, "the broker adopts "+id, func(context.Context) bool {
		r, known := all(b.t, b.operator)[id]
		return known && r.Payload.State == api.Reserved && r.Payload.Decision == nil
	})
}

// keepsItsCA demands that nobody gets a backup over the network, an operator neither.
func (b *process) keepsItsCA() {
	b.t.Helper()
	operator, err := tlsid.OpenClient(filepath.Join(b.dir, "data", "operator"), time.Now, slog.New(slog.DiscardHandler))
	if err != nil {
		b.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: operator.Config()}
	defer transport.CloseIdleConnections()
	remote := client.New("https://"+b.address, &http.Client{Transport: transport})
	if _, err := remote.Members(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	var got bytes.Buffer
	if err := remote.Backup(b.t.Context(), &got); api.CodeOf(err) != api.CodeNotFound || got.Len() > 0 {
		b.t.Errorf("a backup over the network: %v, %d bytes", err, got.Len())
	}
}

// reserved waits until the broker counts so many CPUs of milan as reserved.
func reserved(t *testing.T, b *process, cpus string) {
	t.Helper()
	eventually(t, cpus+" CPUs of milan are reserved", func(ctx context.Context) bool {
		c, err := b.operator.Cluster(ctx, "milan")
		pool, ok := c.Payload.Pools[api.GeneralPool]
		return err == nil && ok && c.Payload.Fresh && pool.Reserved.Cpu().String() == cpus
	})
}

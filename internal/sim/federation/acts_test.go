package federation_test

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/sim/federation"
)

// answers answers what a provider shows as waiting for approval.
func (f *fair) answers(m *federation.Member, id string, word api.Answer) {
	f.t.Helper()
	var waits api.Envelope[api.Approval]
	f.until(id+" waits for approval", func() bool {
		all := must(m.People.Approvals(f.t.Context()))(f.t)
		i := slices.IndexFunc(all, func(a api.Envelope[api.Approval]) bool { return a.ID == id })
		if i >= 0 {
			waits = all[i]
		}
		return i >= 0
	})
	if err := m.People.Answer(f.t.Context(), waits, word); err != nil {
		f.t.Fatal(err)
	}
}

// evicts ends what a provider shows that it lends a consumer.
func (f *fair) evicts(m *federation.Member, consumer string) {
	f.t.Helper()
	f.until(consumer+" is evicted", func() bool {
		shown, err := m.People.Audit(f.t.Context(), consumer)
		if err == nil {
			_, err = m.People.Evict(f.t.Context(), shown)
		}
		return err == nil
	})
}

// reclaim takes back a contract as a seller shows it.
func reclaim(ctx context.Context, m *federation.Member, id string) (api.Reclaimed, error) {
	shown, err := m.People.Sold(ctx, id)
	if err != nil {
		return api.Reclaimed{}, err
	}
	return m.People.Reclaim(ctx, shown)
}

// kubeconfigOf writes the kubeconfig of a member's admin, and returns its file.
func (f *fair) kubeconfigOf(m *federation.Member) string {
	f.t.Helper()
	file := filepath.Join(f.t.TempDir(), m.Name+".kubeconfig")
	if err := f.WriteKubeconfig(file, m); err != nil {
		f.t.Fatal(err)
	}
	return file
}

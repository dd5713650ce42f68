package ui

import (
	"context"
	"net/http"
	"slices"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

var poolActs = map[string]act{"stop": (*UI).stopPool, "admit": (*UI).admit}

// pool reads one VirtualNodePool, and asks what it would do now.
func (u *UI) pool(ctx context.Context, r *http.Request) content {
	name := r.PathValue("name")
	all, err := u.o.Reads.VirtualNodePools(ctx)
	if api.CodeOf(err) == api.CodeForbidden {
		return u.forbidden(name, "VirtualNodePools", err)
	}
	if err != nil {
		return u.failed(name, err)
	}
	i := slices.IndexFunc(all, func(p api.Envelope[api.KnownVirtualNodePool]) bool { return p.ID == name })
	if i < 0 {
		return u.failed(name, api.Errorf(api.CodeNotFound, "there is no VirtualNodePool %.80q", name).FixBy("see", "bourse", "vnp"))
	}
	p := pages.Pool{Pool: all[i], Samples: u.sizes.look(all[i])}
	p.Git = u.o.Reads.GitOf(ctx, &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: name}})
	plan, err := ask(ctx, u.source, question{"plan/" + name, "what it would do now"}, func(ctx context.Context) (api.VirtualNodePoolStatus, error) {
		return u.o.Acts.PlanVirtualNodePool(ctx, name, p.Pool.Payload.Spec)
	})
	if err == nil {
		p.Plan = &plan
	} else if api.CodeOf(err) != api.CodeForbidden {
		p.NotPlan = asError(err)
	}
	return content{title: name, body: func(v pages.View) templ.Component { return pages.VirtualNodePool(v, p) }}
}

func (u *UI) stopPool(ctx context.Context, r *http.Request) ([]string, string, error) {
	name := r.PathValue("name")
	err := u.o.Acts.StopVirtualNodePool(ctx, name, r.PostForm.Get("volumes"))
	return []string{"borrowing"}, "VirtualNodePool " + name + " is being stopped.", err
}

func (u *UI) admit(ctx context.Context, r *http.Request) ([]string, string, error) {
	name, provider := r.PathValue("name"), r.PostForm.Get("provider")
	admitted := r.PostForm.Get("admitted") == "true"
	_, err := u.o.Acts.AdmitProvider(ctx, name, provider, api.Admission{Admitted: admitted})
	done := provider + " is disabled: its virtual node is emptied."
	if admitted {
		done = provider + " may serve " + name + "."
	}
	return []string{"pools", name}, done, err
}

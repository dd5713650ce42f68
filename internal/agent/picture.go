package agent

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// picture shows in Kubernetes what the cluster advertises: the Advertisement named "cluster".
type picture struct {
	client.Client
	namespace string
	log       *slog.Logger

	mu         sync.Mutex
	advertised *api.AdvertisementStatus // nil before the first advertisement
	published  metav1.Condition
	healthy    *metav1.Condition // nil before the doctor has looked
}

// show shows an advertisement, and why the broker refused it.
func (p *picture) show(ctx context.Context, status api.AdvertisementStatus, refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.advertised = &status
	p.published = metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Published", Message: "the broker has it"}
	if refused != nil {
		p.published.Status, p.published.Reason, p.published.Message = metav1.ConditionFalse, string(api.CodeOf(refused)), refused.Error()
	}
	if err := p.write(ctx); err != nil && ctx.Err() == nil {
		p.log.Warn("the Advertisement was not written; the next one will be", "error", err)
	}
}

// health shows what the doctor found. It returns an error before the first advertisement.
func (p *picture) health(ctx context.Context, problems []api.Problem) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	healthy := metav1.Condition{Type: api.ConditionHealthy, Status: metav1.ConditionTrue, Reason: "Healthy", Message: "see: bourse doctor"}
	if worst := health.Worst(problems); worst == api.SeverityError || worst == api.SeverityWarning {
		var found []string
		for _, problem := range problems {
			if problem.Severity != api.SeverityInfo {
				found = append(found, strings.TrimSpace(problem.Code+" "+problem.Subject))
			}
		}
		healthy.Status, healthy.Reason, healthy.Message = metav1.ConditionFalse, problems[0].Code, strings.Join(found, "; ")+"; see: bourse doctor"
	}
	if p.healthy = &healthy; p.advertised == nil {
		return errors.New("nothing was advertised yet")
	}
	return p.write(ctx)
}

// write makes the object what is known. The lock is held.
func (p *picture) write(ctx context.Context) error {
	object := &api.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "cluster"}}
	if _, err := controllerutil.CreateOrPatch(ctx, p.Client, object, func() error { return nil }); err != nil {
		return err
	}
	next := p.advertised.DeepCopy()
	next.Conditions = object.Status.DeepCopy().Conditions
	meta.SetStatusCondition(&next.Conditions, p.published)
	if p.healthy != nil {
		meta.SetStatusCondition(&next.Conditions, *p.healthy)
	}
	if equality.Semantic.DeepEqual(object.Status, *next) {
		return nil
	}
	object.Status = *next
	return kubeobject.SoleStatus(p.Client).Apply(ctx, object)
}

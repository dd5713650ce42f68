package sharing

import (
	"context"
	"errors"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// advertisement writes the Advertisement named "cluster", which shows what the cluster advertises.
type advertisement struct {
	client client.Client
	key    client.ObjectKey

	mu         sync.Mutex
	advertised *api.AdvertisementStatus // nil before the first advertisement
	published  metav1.Condition
	healthy    *metav1.Condition // nil before the doctor has looked
}

// show writes what was advertised, and why a broker refused it; nil: none did.
func (d *advertisement) show(ctx context.Context, status api.AdvertisementStatus, refused error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.advertised = &status
	d.published = metav1.Condition{
		Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Published", Message: "the broker has it",
	}
	if refused != nil {
		d.published.Status = metav1.ConditionFalse
		d.published.Reason, d.published.Message = string(api.CodeOf(refused)), refused.Error()
	}
	return d.write(ctx)
}

// showHealth writes what the doctor found. Errors: those of the API server; one before the first
// advertisement.
func (d *advertisement) showHealth(ctx context.Context, problems []api.Problem) error {
	healthy := metav1.Condition{
		Type: api.ConditionHealthy, Status: metav1.ConditionTrue, Reason: "Healthy", Message: "see: bourse doctor",
	}
	if worst := health.Worst(problems); worst == api.SeverityError || worst == api.SeverityWarning {
		var found []string
		for _, problem := range problems {
			if problem.Severity != api.SeverityInfo {
				found = append(found, strings.TrimSpace(problem.Code+" "+problem.Subject))
			}
		}
		healthy.Status, healthy.Reason = metav1.ConditionFalse, problems[0].Code
		healthy.Message = strings.Join(found, "; ") + "; see: bourse doctor"
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.healthy = &healthy; d.advertised == nil {
		return errors.New("nothing was advertised yet")
	}
	return d.write(ctx)
}

// write makes the object equal to what is known. The lock is held.
func (d *advertisement) write(ctx context.Context) error {
	object := &api.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: d.key.Namespace, Name: d.key.Name}}
	if _, err := controllerutil.CreateOrPatch(ctx, d.client, object, func() error { return nil }); err != nil {
		return kubeobject.Error(err)
	}
	next := d.advertised.DeepCopy()
	next.Conditions = object.Status.DeepCopy().Conditions
	meta.SetStatusCondition(&next.Conditions, d.published)
	if d.healthy != nil {
		meta.SetStatusCondition(&next.Conditions, *d.healthy)
	}
	return kubeobject.ShowStatus(ctx, d.client, object, &object.Status, *next)
}

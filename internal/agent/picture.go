package agent

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/health"
)

// picture shows in Kubernetes what the cluster advertises: the Advertisement named "cluster".
type picture struct {
	client.Client
	namespace string
}

func (p *picture) show(ctx context.Context, status api.AdvertisementStatus, refused error) {
	object := &api.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "cluster"}}
	if _, err := controllerutil.CreateOrPatch(ctx, p.Client, object, func() error { return nil }); err != nil {
		return // it is a picture: the next one will do
	}
	before := object.DeepCopy()
	published := metav1.Condition{Type: api.ConditionReady, Status: metav1.ConditionTrue, Reason: "Published", Message: "the broker has it"}
	if refused != nil {
		published.Status, published.Reason, published.Message = metav1.ConditionFalse, string(api.CodeOf(refused)), refused.Error()
	}
	status.Conditions = object.Status.Conditions
	meta.SetStatusCondition(&status.Conditions, published)
	if equality.Semantic.DeepEqual(object.Status, status) {
		return
	}
	object.Status = status
	_ = p.Status().Patch(ctx, object, client.MergeFrom(before))
}

// health shows what the doctor found.
func (p *picture) health(ctx context.Context, problems []api.Problem) error {
	object := &api.Advertisement{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "cluster"}}
	if err := p.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	healthy := metav1.Condition{Type: api.ConditionHealthy, Status: metav1.ConditionTrue, Reason: "Healthy", Message: "see: bourse doctor"}
	if worst := health.Worst(problems); worst == api.SeverityError || worst == api.SeverityWarning {
		var said []string
		for _, problem := range problems {
			if problem.Severity != api.SeverityInfo {
				said = append(said, strings.TrimSpace(problem.Code+" "+problem.Subject))
			}
		}
		healthy.Status, healthy.Reason, healthy.Message = metav1.ConditionFalse, problems[0].Code, strings.Join(said, "; ")+"; see: bourse doctor"
	}
	before := object.DeepCopy()
	if !meta.SetStatusCondition(&object.Status.Conditions, healthy) {
		return nil
	}
	return p.Status().Patch(ctx, object, client.MergeFrom(before))
}

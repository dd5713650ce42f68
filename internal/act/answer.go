package act

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
)

// The reasons of an answer to an order that changed nothing. An error of the act has its code as the reason.
const (
	ReasonChangedSince = "ChangedSince"
	ReasonInvalid      = "Invalid"
)

// Answer returns the answer to an order about an object as a condition without its type. failed is the error of
// carrying it out, nil if it is done. Errors: failed, where it is no answer, because another try may help.
func (a Act) Answer(object client.Object, o Order, failed error) (metav1.Condition, error) {
	answer := metav1.Condition{Status: metav1.ConditionFalse, Reason: ReasonChangedSince}
	begin := fmt.Sprintf("%s has the value %s", a.Annotation(), o.Value)
	form := "a digest, 16 of 0-9 and a-f, which may be followed by a dot and 1 to 32 of a-z and 0-9"
	again := fmt.Sprintf("nothing was changed; look at it again (%s), then name the digest that it shows: %s",
		a.show(object), a.Command(object, "DIGEST"))
	if a.TakesTime {
		form = "a time such as 2027-01-31T09:00:00Z"
		again = "nothing was changed; to try again, name the time of then: " + a.Command(object, Now)
	}
	switch code := api.CodeOf(failed); {
	case o.Step == Invalid:
		answer.Reason = ReasonInvalid
		answer.Message = fmt.Sprintf("%s: it must be %s; %s", begin, form, again)
	case o.Step == ChangedSince:
		answer.Message = fmt.Sprintf("%s: that is not the digest of what is here now; %s", begin, again)
	case failed == nil:
		answer.Status, answer.Reason, answer.Message = metav1.ConditionTrue, a.Done, begin+": it is carried out"
	case code == api.CodeConflict, code == api.CodeNotFound:
		answer.Message = fmt.Sprintf("%s: %s; %s", begin, api.WithoutCode(failed.Error()), again)
	case a.TakesTime && code == api.CodeForbidden:
		answer.Reason, answer.Message = string(code), fmt.Sprintf("%s: %s; %s", begin, api.WithoutCode(failed.Error()), again)
	case code == api.CodeSuspended, code == api.CodeForbidden, code == api.CodeInvalid:
		answer.Reason = string(code)
		answer.Message = fmt.Sprintf("%s: %s; nothing was changed; to try again, add a dot and another word to the "+
			"digest: %s", begin, api.WithoutCode(failed.Error()), a.Command(object, "DIGEST.2"))
	default:
		return metav1.Condition{}, failed
	}
	return answer, nil
}

// Note returns the answered values of a status, with that of an order. It leaves answered as it is.
func (a Act) Note(answered map[string]string, o Order) map[string]string {
	next := map[string]string{a.Name: o.Value}
	for name, value := range answered {
		if name != a.Name {
			next[name] = value
		}
	}
	return next
}

// Tell makes an Event of an answer. recorder may be nil.
func Tell(recorder events.EventRecorder, object client.Object, answer metav1.Condition) {
	if recorder != nil {
		recorder.Eventf(object, nil, corev1.EventTypeNormal, answer.Reason, "Answer", "%s", answer.Message)
	}
}

// Now is the value of a command for an act that takes a time: a shell replaces it by the present.
const Now = `$(date -u +%FT%TZ)`

// Command returns the kubectl command by which an admin carries out the act with a value.
func (a Act) Command(object client.Object, value string) string {
	annotation := api.Command{a.Annotation() + "=" + value}.String()
	if value == Now {
		annotation = fmt.Sprintf("%q", a.Annotation()+"="+value)
	}
	return api.Command{"kubectl", "-n", object.GetNamespace(), "annotate", "--overwrite", a.Kind, object.GetName()}.String() +
		" " + annotation
}

// show returns the kubectl command that prints what the digest stands for.
func (a Act) show(object client.Object) string {
	return api.Command{"kubectl", "-n", object.GetNamespace(), "get", a.Kind, object.GetName(),
		"-o", "jsonpath={" + a.Shows + "}"}.String()
}

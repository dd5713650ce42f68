package instruction

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Part is the part of an instruction's status that one writer writes. Several write each instruction, and
// each owns its part, so that none undoes what another one wrote.
type Part struct {
	// Manager is the field manager of server-side apply.
	Manager string
	// Conditions are the types of its conditions.
	Conditions []string
	// State says that it writes the state, the reason and the approval, Use that it writes the amounts, and Answers
	// that it writes the answered values.
	State, Use, Answers bool
	// IfUnchanged says that Write fails with a conflict if the object has changed since it was read.
	IfUnchanged bool
}

// The parts of a ReservationInstruction's status that say how a bound reservation is carried out. Each is
// written at another time, and always as a whole.
var (
	// SlicePart says how far the slice and its virtual node are, and what they have.
	SlicePart = Part{Manager: "bourse-slice", Use: true, Conditions: []string{
		api.ConditionPeered, api.ConditionGranted, api.ConditionNodeReady, api.ConditionSuspended,
		api.ConditionLabelsDropped,
	}}
	NetworkPart = Part{Manager: "bourse-network", Conditions: []string{api.ConditionNetworkReady}}
	OffloadPart = Part{Manager: "bourse-offload", Conditions: []string{api.ConditionOffloaded}}
	PodsPart    = Part{Manager: "bourse-pods", Conditions: []string{api.ConditionPodsComply, api.ConditionReflected}}
)

// AnswerPart is the part of a ProviderInstruction's status that answers an admin's annotations. From an old copy it is
// not written: that may lack an answer, and so lead to another one.
var AnswerPart = Part{Manager: "bourse-answers", Answers: true, IfUnchanged: true,
	Conditions: []string{api.ConditionAnswered}}

// clearCarriedOut empties what a status, as it was read, says of how a reservation was carried out. status is that of
// object. Errors: the API server's.
func clearCarriedOut(ctx context.Context, c client.Client, object client.Object, status *api.InstructionStatus,
	read api.InstructionStatus) error {
	for _, part := range []Part{SlicePart, NetworkPart, OffloadPart, PodsPart} {
		*status = *read.DeepCopy()
		if err := part.Write(ctx, c, object, status, api.InstructionStatus{}); err != nil {
			return err
		}
	}
	return nil
}

// of returns what a status has of the part.
func (p Part) of(status *api.InstructionStatus) (own api.InstructionStatus) {
	if p.State {
		own.State, own.Reason, own.Approval = status.State, status.Reason, status.Approval
	}
	if p.Use {
		own.Granted, own.Used, own.Namespaces = status.Granted, status.Used, status.Namespaces
		own.SharedBy, own.Account, own.Others = status.SharedBy, status.Account, status.Others
	}
	if p.Answers {
		own.Answered = status.Answered
	}
	for _, c := range status.Conditions {
		if slices.Contains(p.Conditions, c.Type) {
			own.Conditions = append(own.Conditions, c)
		}
	}
	return own
}

// Write makes next the whole part in the stored status, if it differs from the one that was read. A condition
// of the part that next lacks goes away. status is that of object, as it was read; afterwards it has the part
// alone. Nothing is written where the object is gone. Errors: the API server's.
func (p Part) Write(ctx context.Context, c client.Client, object client.Object,
	status *api.InstructionStatus, next api.InstructionStatus) error {
	before := p.of(status)
	conditions := slices.DeleteFunc(slices.Clone(before.Conditions), func(c metav1.Condition) bool {
		return meta.FindStatusCondition(next.Conditions, c.Type) == nil
	})
	for _, condition := range next.Conditions { // the time of a condition that stays is kept
		condition.ObservedGeneration = object.GetGeneration()
		if _, tenants := object.(*api.ReservationInstruction); tenants {
			condition.Message = withoutOthers(condition.Message, object.GetName())
		}
		meta.SetStatusCondition(&conditions, condition)
	}
	*status = next
	status.Conditions = conditions
	if !kubeobject.Differs(before, status) {
		return nil
	}
	return kubeobject.Status{Client: c, Manager: p.Manager, IfUnchanged: p.IfUnchanged}.Apply(ctx, object)
}

// reservationIDs is one or more of what brokers and agents make (server.newID).
var reservationIDs = regexp.MustCompile(`\br-[a-z2-7]{16}\b(, r-[a-z2-7]{16}\b)*`)

// withoutOthers leaves the IDs of other reservations out of a text. Users of one namespace read a ReservationInstruction,
// while a provider's texts are about all reservations that share a virtual node.
func withoutOthers(text, own string) string {
	return reservationIDs.ReplaceAllStringFunc(text, func(list string) string {
		switch ids := strings.Split(list, ", "); {
		case list == own:
			return own
		case slices.Contains(ids, own):
			return own + ", and for others beside it"
		case len(ids) == 1:
			return "another reservation"
		}
		return "other reservations"
	})
}

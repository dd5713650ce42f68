package pages_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// The form for another end proposes one that is later than now agreed, and so does the command beside it.
func TestTheFormForAnotherEndProposesALaterOne(t *testing.T) {
	for left, first := range map[time.Duration]string{0: "1h", 25 * time.Minute: "2h", time.Hour: "2h", 9*24*time.Hour + time.Second: "218h"} {
		a := pages.Asked{Namespace: "team", Name: "web"}
		a.Request.Payload.Status = api.ResourceRequestStatus{State: api.Active, Reservation: "r-1", Provider: "milan",
			Began: &metav1.Time{Time: now}, Until: &metav1.Time{Time: now.Add(left)}}
		has(t, render(t, pages.Request(view("/requests/team/web", "panel=extend"), a)), `name="for" value="`+first+`"`,
			"bourse -n team extend web --for "+first+`"`)
	}
}

// The form for another size says what becomes of the pods.
func TestTheFormForAnotherSizeSaysWhoIsEvicted(t *testing.T) {
	has(t, render(t, pages.Request(view("/requests/team/web", "panel=resize"), pages.Asked{})),
		"Pods that do not fit a smaller reservation are evicted")
}

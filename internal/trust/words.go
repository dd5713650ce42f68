package trust

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bourse-dev/bourse/api"
)

// maxText bounds the kept texts of other clusters, in bytes.
const maxText = 1024

// Text makes a text of another cluster fit for objects and terminals: at most 1 KiB of printable
// characters.
func Text(message string) string {
	if len(message) > maxText {
		message = message[:maxText-3] + "..."
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) && r != utf8.RuneError {
			return r
		}
		return ' '
	}, message)
}

// maxWords bounds the words that CheckShown counts, together, in bytes. An honest broker's take about 4 KiB.
const maxWords = 64 << 10

// CheckShown checks how long the words of a reservation are that an agent may record as a broker shows them.
// Texts for users are cut by [Text]. An assignment and an offer have bounds of their own, and are signed.
// Errors: BadSignature.
func CheckShown(t api.Reservation) error {
	words := len(t.Provider) + len(t.Pool) + len(t.Fence.Lineage) + len(t.Acceptance) + len(t.End) + len(t.Reclaim)
	for _, id := range t.Group {
		words += len(id) + len(`"",`)
	}
	if t.Sale != nil {
		words += len(t.Sale.Offer) + len(t.Sale.Plan)
	}
	if words > maxWords {
		return api.Errorf(api.CodeBadSignature, "the broker shows a reservation with words of %d bytes", words).
			Fix("at most %d are recorded; ask the broker's operator", maxWords)
	}
	return nil
}

// Reasons returns the closed list of reasons.
func Reasons() []api.Reason {
	return []api.Reason{
		api.ReasonNoCandidate, api.ReasonReleased, api.ReasonCancelled, api.ReasonEnded, api.ReasonRevokedByProvider,
		api.ReasonNotConfirmed, api.ReasonNotAccepted, api.ReasonAcceptanceDropped, api.ReasonInsufficient, api.ReasonPolicy,
		api.ReasonNothingShared, api.ReasonKeyChanged, api.ReasonKeyUnconfirmed,
		api.ReasonUnreachable, api.ReasonNoNetwork, api.ReasonBadAssignment, api.ReasonLedgerFull, api.ReasonNoAnswer,
		api.ReasonInUse, api.ReasonNamespacesFull, api.ReasonNotApproved, api.ReasonReclaimed,
		api.ReasonMemberRemoved, api.ReasonSuspended, api.ReasonPartFailed,
	}
}

// Known reports whether a reason is in the closed list.
func Known(r api.Reason) bool { return slices.Contains(Reasons(), r) }

// Reason returns a reason of another cluster if it is in the list, and nothing otherwise.
func Reason(r api.Reason) api.Reason {
	if Known(r) {
		return r
	}
	return ""
}

package trust

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/market"
)

// maxText bounds what is kept of others' words, in bytes.
const maxText = 1024

// Text makes what somebody else says fit to be kept in objects and shown in terminals: at most 1 KiB of printable characters.
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

// Reasons are the closed list of reasons.
func Reasons() []api.Reason {
	return []api.Reason{
		api.ReasonNoCandidate, api.ReasonReleased, api.ReasonCancelled, api.ReasonEnded, api.ReasonRevokedByProvider,
		api.ReasonNotConfirmed, api.ReasonNotAccepted, api.ReasonAcceptanceDropped, api.ReasonInsufficient, api.ReasonPolicy,
		api.ReasonNothingShared, api.ReasonKeyChanged, api.ReasonKeyUnconfirmed, api.ReasonUnreachable, api.ReasonNoNetwork, api.ReasonBadAssignment, api.ReasonLedgerFull, api.ReasonNoAnswer,
		api.ReasonNotApproved, api.ReasonReclaimed, api.ReasonMemberRemoved, api.ReasonSuspended, api.ReasonPartFailed,
	}
}

// Known says whether a reason is in the closed list.
func Known(r api.Reason) bool { return slices.Contains(Reasons(), r) }

// Reason is what is kept of a reason that somebody else gives: nothing, if it is not in the list.
func Reason(r api.Reason) api.Reason {
	if Known(r) {
		return r
	}
	return ""
}

// Presentable says what of a card cannot be shown to people, or nil. How much a card may hold, the market says.
// Errors: Invalid with the field.
func Presentable(c *api.Card) error {
	if err := market.ValidCluster("cluster", c.Cluster); err != nil {
		return err
	}
	p := &c.Properties
	words := slices.Concat(p.Zones, p.Architectures, p.GPUs, p.StorageClasses, []string{p.Region, p.Kubernetes, p.Liqo, p.Connector})
	for label, value := range p.Labels {
		words = append(words, label, value)
	}
	for _, word := range words {
		if Text(word) != word {
			return api.Invalid("properties", "%.80q cannot be shown", word).Fix("use printable characters")
		}
	}
	return nil
}

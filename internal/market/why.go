package market

import (
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Why is a decision as it is kept, in JSON: each reservation has one, few are ever read again, and the collector of garbage passes by
// bytes. It is not changed. nil: there is none.
type Why json.RawMessage

// Explain spells a decision as it is kept.
func Explain(d *api.Decision) Why {
	why, _ := payload.Marshal(d) // a decision always encodes
	return why
}

// Decision is what was decided, and why; nil if that was not kept.
func (y Why) Decision() *api.Decision {
	d := &api.Decision{}
	if y == nil || json.Unmarshal(y, d) != nil {
		return nil
	}
	return d
}

// MarshalJSON and UnmarshalJSON take it as it is spelled.
func (y Why) MarshalJSON() ([]byte, error) { return json.RawMessage(y).MarshalJSON() }

func (y *Why) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(y).UnmarshalJSON(data) }

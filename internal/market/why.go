package market

import (
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// Why is an encoded decision. Each reservation has one and few are read again: bytes cost the
// garbage collector nothing. It is immutable. Nil: there is none.
type Why json.RawMessage

// Explain encodes a decision.
func Explain(d *api.Decision) Why {
	why, _ := payload.Marshal(d) // a decision always encodes
	return why
}

// Decision decodes the decision; nil: there is none.
func (y Why) Decision() *api.Decision {
	d := &api.Decision{}
	if y == nil || json.Unmarshal(y, d) != nil {
		return nil
	}
	return d
}

// MarshalJSON and UnmarshalJSON keep the JSON as it is.
func (y Why) MarshalJSON() ([]byte, error) { return json.RawMessage(y).MarshalJSON() }

func (y *Why) UnmarshalJSON(data []byte) error { return (*json.RawMessage)(y).UnmarshalJSON(data) }

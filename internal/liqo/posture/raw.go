package posture

import "encoding/json"

// rawObject is an object whose kind is read first.
type rawObject struct {
	Kind string
	text []byte
}

// UnmarshalJSON keeps the text.
func (r *rawObject) UnmarshalJSON(text []byte) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return err
	}
	r.Kind, r.text = head.Kind, append([]byte(nil), text...)
	return nil
}

func (r rawObject) into(v any) error { return json.Unmarshal(r.text, v) }

package market

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// MaxRequest is how many bytes of a request a market keeps: several times what an honest one takes that says
// all it can.
const MaxRequest = 32 << 10

// CheckRequest bounds what is kept of a request. Errors: TooLarge.
func CheckRequest(r *api.Request) error {
	data, err := payload.Marshal(r)
	if err != nil || len(data) > MaxRequest {
		return api.Errorf(api.CodeTooLarge, "the request takes %d bytes in the journal, of at most %d", len(data),
			MaxRequest).At("request").
			Fix("name fewer resources, properties and clusters")
	}
	return nil
}

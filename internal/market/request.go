package market

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/payload"
)

// MaxRequest is the largest request in the journal, in bytes: several times an honest one with every field.
const MaxRequest = 32 << 10

// CheckRequest refuses a request that is too large to keep. Errors: TooLarge.
func CheckRequest(r *api.Request) error {
	data, err := payload.Marshal(r)
	if err != nil || len(data) > MaxRequest {
		return api.Errorf(api.CodeTooLarge, "the request takes %d bytes in the journal, of at most %d", len(data),
			MaxRequest).At("request").
			Fix("name fewer resources, properties and clusters")
	}
	return nil
}

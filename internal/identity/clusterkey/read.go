package clusterkey

import (
	"fmt"

	"github.com/bourse-dev/bourse/internal/payload"
)

// Read decodes a payload as encoding/json does, but no amount that Kubernetes would not write. Error:
// [ErrPayload].
func Read(claims []byte, into any) error { return read(claims, into) }

func read(claims []byte, into any, options ...payload.Options) error {
	if err := payload.Unmarshal(claims, into, append(options, payload.Signed)...); err != nil {
		return fmt.Errorf("%w: %.200s", ErrPayload, err.Error()) // cut, because it quotes input
	}
	return nil
}

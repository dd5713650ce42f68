package kubeobject

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"

	"github.com/bourse-dev/bourse/api"
)

// Bounds on texts in bytes, because other parties choose parts of them. An API server refuses a condition
// with a message of more than 32 KiB, and an Event with a note of more than 1 KiB.
const maxMessage, maxNote = 4 << 10, 1 << 10

// cutTexts cuts all texts in a status, as JSON decodes it. No status has a document, so that only what another party
// makes too long is longer.
func cutTexts(value any) any {
	switch in := value.(type) {
	case string:
		return api.CutText(in, maxMessage)
	case map[string]any:
		for name, field := range in {
			in[name] = cutTexts(field)
		}
	case []any:
		for i, value := range in {
			in[i] = cutTexts(value)
		}
	}
	return value
}

// CutNotes returns a recorder whose Events have notes that an API server takes.
func CutNotes(r events.EventRecorder) events.EventRecorder { return noteCutter{r} }

type noteCutter struct{ to events.EventRecorder }

// Eventf sends an Event. See [events.EventRecorder].
func (c noteCutter) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	c.to.Eventf(regarding, related, kind, reason, action, "%s", api.CutText(fmt.Sprintf(note, args...), maxNote))
}

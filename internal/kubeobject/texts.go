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

// cutMessages cuts the messages in a status, as JSON decodes it.
func cutMessages(value any) {
	switch in := value.(type) {
	case map[string]any:
		for name, field := range in {
			if text, is := field.(string); is && name == "message" {
				in[name] = api.CutText(text, maxMessage)
				continue
			}
			cutMessages(field)
		}
	case []any:
		for _, one := range in {
			cutMessages(one)
		}
	}
}

// CutNotes returns a recorder whose Events have notes that an API server takes.
func CutNotes(r events.EventRecorder) events.EventRecorder { return noteCutter{r} }

type noteCutter struct{ to events.EventRecorder }

// Eventf sends an Event. See [events.EventRecorder].
func (c noteCutter) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	c.to.Eventf(regarding, related, kind, reason, action, "%s", api.CutText(fmt.Sprintf(note, args...), maxNote))
}

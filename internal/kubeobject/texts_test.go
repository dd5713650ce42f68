package kubeobject

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/bourse-dev/bourse/api"
)

// However long a text of another party is, an API server takes the status that shows it.
func TestMessagesFitTheAPIServer(t *testing.T) {
	long, short := strings.Repeat("é", 64<<10), "it waits"
	pool := &api.VirtualNodePool{ObjectMeta: metav1.ObjectMeta{Name: "pool"}}
	pool.Status.Conditions = []metav1.Condition{{Type: "Long", Message: long}, {Type: "Short", Message: short}}
	pool.Status.Why = long
	pool.Status.Providers = []api.PoolProvider{{Name: "milan", Volumes: []string{long}}}
	scheme := runtime.NewScheme()
	if err := api.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	applied, err := SoleStatus(fake.NewClientBuilder().WithScheme(scheme).Build()).configuration(pool)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(applied.Object["status"])
	if err != nil {
		t.Fatal(err)
	}
	var status api.VirtualNodePoolStatus
	if err := json.Unmarshal(data, &status); err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{maxMessage, len(short)} {
		got := status.Conditions[i].Message
		if len(got) > want || len(got) < want-2 || !utf8.ValidString(got) {
			t.Errorf("condition %s has a message of %d bytes, want %d", status.Conditions[i].Type, len(got), want)
		}
	}
	if why, volume := len(status.Why), len(status.Providers[0].Volumes[0]); why > maxMessage || volume > maxMessage {
		t.Errorf("why has %d bytes, and a volume %d", why, volume)
	}
}

// A status with a text that is too long is the stored one once it was written: it is not written again and again.
func TestALongTextIsWrittenOnce(t *testing.T) {
	long := strings.Repeat("é", 64<<10)
	status := func() *api.VirtualNodePoolStatus {
		return &api.VirtualNodePoolStatus{Why: long, Conditions: []metav1.Condition{{Type: "Long", Message: long}}}
	}
	stored := status()
	if !Differs(api.VirtualNodePoolStatus{}, stored) || len(stored.Why) > maxMessage {
		t.Fatalf("it stores %d bytes", len(stored.Why))
	}
	if next := status(); Differs(*stored, next) {
		t.Error("the same text is another one")
	}
	other := status()
	if other.Why = "short"; !Differs(*stored, other) {
		t.Error("another text is the same")
	}
}

// The same holds for Events, whose notes an API server counts in bytes.
func TestNotesFitTheAPIServer(t *testing.T) {
	recorder := events.NewFakeRecorder(1)
	CutNotes(recorder).Eventf(nil, nil, "Normal", "Reason", "Act", "%.1000s", strings.Repeat("é", 2000))
	sent := strings.TrimPrefix(<-recorder.Events, "Normal Reason ")
	if len(sent) > 1024 || len(sent) < 1000 || !utf8.ValidString(sent) {
		t.Errorf("the note has %d bytes", len(sent))
	}
}

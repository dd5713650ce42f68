package kube

import (
	"bytes"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"

	"github.com/bourse-dev/bourse/internal/journal"
)

// ledger holds a snapshot and two records.
func ledger(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	image := journal.NewImage()
	var failures []error
	for _, event := range []string{"a", "b", "c"} {
		failures = append(failures, image.Append(image.Head, [][]byte{[]byte(event), []byte(event)}))
		if event == "a" {
			failures = append(failures, image.Snapshot(image.Head, []byte("state")))
		}
	}
	object := newLedger(key)
	_, err := encode(object, contentOf(image))
	if err = errors.Join(append(failures, err)...); err != nil {
		t.Fatal(err)
	}
	return object
}

// contentOf is an image as it lies in one object.
func contentOf(image journal.Image) *content {
	c := &content{image: image, seal: image.Base.Seal(image.State)}
	if len(image.State) > 0 {
		c.snapshot, _ = pack(image.State)
	}
	return c
}

func TestForgeryIsRefused(t *testing.T) {
	for name, forge := range map[string]func(spec map[string]any){
		"no spec":             func(spec map[string]any) { clear(spec) },
		"format":              func(spec map[string]any) { spec["format"] = int64(0) },
		"newer format":        func(spec map[string]any) { spec["format"] = int64(3) },
		"lineage":             func(spec map[string]any) { spec["head"].(map[string]any)["lineage"] = "other" },
		"revision":            func(spec map[string]any) { spec["head"].(map[string]any)["revision"] = int64(5) },
		"negative revision":   func(spec map[string]any) { spec["base"].(map[string]any)["revision"] = int64(-1) },
		"short hash":          func(spec map[string]any) { spec["head"].(map[string]any)["hash"] = "00" },
		"hash":                func(spec map[string]any) { spec["head"].(map[string]any)["hash"] = journal.Hash{}.String() },
		"base":                func(spec map[string]any) { spec["base"] = spec["head"] },
		"seal":                func(spec map[string]any) { spec["seal"] = journal.Hash{}.String() },
		"no snapshot":         func(spec map[string]any) { delete(spec, "snapshot") },
		"snapshot not packed": func(spec map[string]any) { spec["snapshot"] = "c3RhdGU=" },
		"snapshot not base64": func(spec map[string]any) { spec["snapshot"] = "?" },
		"another snapshot": func(spec map[string]any) {
			packed, _ := pack([]byte("other"))
			spec["snapshot"] = packed
		},
		"no tail":       func(spec map[string]any) { delete(spec, "tail") },
		"shorter tail":  func(spec map[string]any) { spec["tail"] = spec["tail"].([]any)[:1] },
		"reversed tail": func(spec map[string]any) { tail := spec["tail"].([]any); tail[0], tail[1] = tail[1], tail[0] },
		"event":         func(spec map[string]any) { spec["tail"].([]any)[0].(map[string]any)["events"].([]any)[1] = "YQ==" },
		"no events":     func(spec map[string]any) { spec["tail"].([]any)[0].(map[string]any)["events"] = nil },
		"tail's type":   func(spec map[string]any) { spec["tail"] = "none" },
	} {
		t.Run(name, func(t *testing.T) {
			object := ledger(t)
			if _, _, err := decode(object); err != nil {
				t.Fatal(err)
			}
			forge(object.Object["spec"].(map[string]any))
			_, _, err := decode(object)
			var refused *journal.RefusedError
			if !errors.As(err, &refused) || refused.Where != "ledger bourse/gate" ||
				refused.Found == "" || refused.Remedy == "" {
				t.Errorf("decode: %v, want it refused", err)
			}
		})
	}
}

func TestUnpackIsBounded(t *testing.T) {
	packed, err := pack(make([]byte, 1001))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(packed, 1000); err == nil {
		t.Error("unpacked 1001 bytes, want at most 1000")
	}
	if state, err := unpack(packed, 1001); err != nil || len(state) != 1001 {
		t.Errorf("unpacked %d bytes, %v, want 1001", len(state), err)
	}
}

func FuzzDecode(f *testing.F) {
	intact, err := json.Marshal(ledger(f).Object["spec"])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(intact)
	f.Add([]byte(`{"format":1,"tail":[{"revision":-1,"events":[""]}]}`))
	f.Fuzz(func(t *testing.T, encoded []byte) {
		object := newLedger(key)
		var spec map[string]any
		if json.Unmarshal(encoded, &spec) != nil {
			return
		}
		object.Object["spec"] = spec
		found, state, err := decode(object)
		if err != nil {
			return
		}
		again := newLedger(key)
		if _, err := encode(again, found); err != nil {
			t.Fatal(err)
		}
		if back, same, err := decode(again); err != nil || back.image.Head != found.image.Head || !bytes.Equal(same, state) {
			t.Errorf("decoded %v, encoded, decoded %v, %v", found.image.Head, back, err)
		}
	})
}

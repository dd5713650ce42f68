package kube

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json" // its integers are int64, as in objects
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/journal"
)

const (
	// MaxSize is the limit of a whole Ledger as JSON, in bytes: well under the 1.5 MiB that etcd takes.
	MaxSize = 900 << 10
	// MaxState is the limit of a snapshot before it is packed, in bytes.
	MaxState = 16 << 20
	// format is spec.format: 1 since the first release.
	format = 1
)

var kind = schema.GroupVersionKind{Group: "bourse.dev", Version: "v1alpha1", Kind: "Ledger"}

// spec is a Ledger's spec. Hashes are hexadecimal, bytes base64.
type spec struct {
	Format   int64            `json:"format"`
	Write    string           `json:"write"`              // random, new with each write: see swap
	Head     journal.Head     `json:"head"`               // where tail ends
	Base     journal.Head     `json:"base"`               // where tail begins
	Snapshot []byte           `json:"snapshot,omitempty"` // the state there, gzip
	Seal     journal.Hash     `json:"seal"`               // of base and the state
	Tail     []journal.Record `json:"tail,omitempty"`
}

// content is what a Ledger says.
type content struct {
	image  journal.Image
	write  string
	packed []byte // the snapshot, as it is written
}

func newLedger(key client.ObjectKey) *unstructured.Unstructured {
	ledger := &unstructured.Unstructured{}
	ledger.SetGroupVersionKind(kind)
	ledger.SetNamespace(key.Namespace)
	ledger.SetName(key.Name)
	return ledger
}

// encode makes image the content of object and returns it. packed is the snapshot as it was written before; nil: it was not.
// ErrFull if the API server should not be asked to keep the result.
func encode(object *unstructured.Unstructured, image journal.Image, packed []byte) (made content, err error) {
	made = content{image, rand.Text(), packed}
	if len(image.State) > MaxState {
		return made, fmt.Errorf("%w: a state of %d bytes, of at most %d: end what takes the space", journal.ErrFull, len(image.State), MaxState)
	}
	if len(image.State) > 0 && len(packed) == 0 {
		if made.packed, err = pack(image.State); err != nil {
			return made, err
		}
	}
	encoded, err := json.Marshal(spec{
		Format: format, Write: made.write, Head: image.Head, Base: image.Base, Seal: image.Base.Seal(image.State), Snapshot: made.packed, Tail: image.Records,
	})
	if err != nil {
		return made, err
	}
	var fields map[string]any
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return made, err
	}
	object.Object["spec"] = fields
	whole, err := json.Marshal(object.Object)
	if err == nil && len(whole) > MaxSize {
		err = fmt.Errorf("%w: it would take %d bytes of %d: take a snapshot, or end what takes the space", journal.ErrFull, len(whole), MaxSize)
	}
	return made, err
}

// decode returns what object holds, verified, or a *journal.RefusedError.
func decode(object *unstructured.Unstructured) (*content, error) {
	refused := &journal.RefusedError{
		Where:  fmt.Sprintf("ledger %s/%s", object.GetNamespace(), object.GetName()),
		Remedy: "put back its spec as bourse wrote it, from a backup of the object; nobody else may write it. To delete it makes the agent forget all that it accepted",
	}
	encoded, err := json.Marshal(object.Object["spec"])
	var s spec
	if err == nil {
		err = json.Unmarshal(encoded, &s)
	}
	if s.Format > format {
		refused.Remedy = "start the version of bourse that wrote it, or a later one"
	}
	var image journal.Image
	if err == nil {
		image, err = s.image()
	}
	if err != nil {
		refused.Found = err.Error()
		return nil, refused
	}
	return &content{image, s.Write, s.Snapshot}, nil
}

func (s *spec) image() (image journal.Image, err error) {
	if s.Format != format {
		return image, fmt.Errorf("spec.format is %d, this version knows %d", s.Format, format)
	}
	image = journal.Image{Base: s.Base, Records: s.Tail, Head: s.Head}
	if len(s.Snapshot) > 0 {
		if image.State, err = unpack(s.Snapshot, MaxState); err != nil {
			return image, fmt.Errorf("spec.snapshot: %w", err)
		}
	}
	if s.Base.Seal(image.State) != s.Seal {
		return image, errors.New("spec.base and spec.snapshot do not match spec.seal")
	}
	return image, image.Verify()
}

func pack(state []byte) ([]byte, error) {
	var packed bytes.Buffer
	writer := gzip.NewWriter(&packed)
	_, err := writer.Write(state)
	err = errors.Join(err, writer.Close())
	return packed.Bytes(), err
}

func unpack(packed []byte, limit int64) ([]byte, error) {
	reader, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	state, err := io.ReadAll(io.LimitReader(reader, limit+1))
	if err == nil && int64(len(state)) > limit {
		err = fmt.Errorf("it unpacks to more than %d bytes", limit)
	}
	return state, err
}

package kube

import (
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json" // its integers are int64, as in objects
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/bourse-dev/bourse/internal/journal"
)

const (
	// MaxSize is the limit of the Ledger itself as JSON, in bytes: less than the 1.5 MiB that etcd accepts.
	MaxSize = 900 << 10
	// MaxState is the limit of a snapshot before it is packed, in bytes.
	MaxState = 64 << 20
	// A Ledger without parts has format 1, as since the first release; one with parts has format 2.
	formatWhole, formatParts = 1, 2
)

// directory is the annotation in which a Ledger repeats the parts that its spec names. A CRD of a version
// before parts drops these fields at the next write, but no annotation.
const directory = "bourse.dev/parts"

var kind = schema.GroupVersionKind{Group: "bourse.dev", Version: "v1alpha1", Kind: "Ledger"}

// spec is a Ledger's spec. Hashes are hexadecimal, bytes base64.
type spec struct {
	Format   int64            `json:"format"`
	Write    string           `json:"write"`              // random, new with each write: see swap
	Head     journal.Head     `json:"head"`               // where tail ends
	Base     journal.Head     `json:"base"`               // where the snapshot is
	Snapshot []byte           `json:"snapshot,omitempty"` // the state at Base, gzip; empty where it lies in Parts
	Seal     journal.Hash     `json:"seal"`               // of base and the state
	Tail     []journal.Record `json:"tail,omitempty"`     // after Base and after what is Filed
	Parts    []part           `json:"parts,omitempty"`    // the packed snapshot, in pieces
	Filed    []part           `json:"filed,omitempty"`    // the batches before Tail, packed
}

// part names an object that holds a part of the Ledger, and its content.
type part struct {
	Part   int64        `json:"part"`
	Digest journal.Hash `json:"digest"`
	Size   int64        `json:"size"` // of its data, in bytes
	// Revision and Hash are those of the head after its last batch. A piece of the snapshot has none.
	Revision uint64        `json:"revision,omitempty"`
	Hash     *journal.Hash `json:"hash,omitempty"`
}

// content is the content of a Ledger with its parts. The image has all records, but not the state.
type content struct {
	image    journal.Image
	write    string
	seal     journal.Hash
	snapshot []byte // packed; empty if it is in parts
	plain    int64  // the size of the state before it was packed
	parts    []part
	filed    []part
	last     []byte // the data of the last of filed
}

// filedTo returns the revision up to which records are in parts.
func (c *content) filedTo() uint64 {
	if len(c.filed) == 0 {
		return 0
	}
	return c.filed[len(c.filed)-1].Revision
}

// tail returns the records in the Ledger itself.
func (c *content) tail() []journal.Record {
	return c.image.Records[len(c.image.Records)-c.inline():]
}

// inline returns how many records are in the Ledger itself.
func (c *content) inline() int {
	filed, n := c.filedTo(), 0
	for _, r := range slices.Backward(c.image.Records) {
		if r.Revision <= filed {
			break
		}
		n++
	}
	return n
}

// size returns how much of a space the content takes.
func (c *content) size(space int64) *journal.Size {
	s := &journal.Size{Snapshot: int64(len(c.snapshot)), Tail: weigh(c.tail()), Space: space,
		Plain: c.plain + weigh(c.image.Records), MaxPlain: MaxState}
	for _, p := range c.parts {
		s.Snapshot += p.Size
	}
	for _, p := range c.filed {
		s.Tail += p.Size
	}
	return s
}

// weigh returns how many bytes the events of records have.
func weigh(records []journal.Record) (sum int64) {
	for _, r := range records {
		for _, e := range r.Events {
			sum += int64(len(e))
		}
	}
	return sum
}

// used reports whether the content names a part.
func (c *content) used(number int64) bool {
	sameNumber := func(p part) bool { return p.Part == number }
	return slices.ContainsFunc(c.parts, sameNumber) || slices.ContainsFunc(c.filed, sameNumber)
}

func newLedger(key client.ObjectKey) *unstructured.Unstructured {
	ledger := &unstructured.Unstructured{}
	ledger.SetGroupVersionKind(kind)
	ledger.SetNamespace(key.Namespace)
	ledger.SetName(key.Name)
	return ledger
}

// encode makes c the content of object, with the name of a new write, and returns the size of the object
// as JSON. Errors: ErrFull if that is too much for the API server.
func encode(object *unstructured.Unstructured, c *content) (size int, err error) {
	c.write = rand.Text()
	format := int64(formatWhole)
	if len(c.parts)+len(c.filed) > 0 {
		format = formatParts
	}
	encoded, err := json.Marshal(spec{
		Format: format, Write: c.write, Head: c.image.Head, Base: c.image.Base, Seal: c.seal, Snapshot: c.snapshot,
		Tail: c.tail(), Parts: c.parts, Filed: c.filed,
	})
	if err != nil {
		return 0, err
	}
	var fields map[string]any
	if err := json.Unmarshal(encoded, &fields); err != nil {
		return 0, err
	}
	object.Object["spec"] = fields
	if err := list(object, c); err != nil {
		return 0, err
	}
	whole, err := json.Marshal(object.Object)
	if err == nil && len(whole) > MaxSize {
		err = fmt.Errorf("%w: it would take %d bytes of %d: take a snapshot, or end reservations",
			journal.ErrFull, len(whole), MaxSize)
	}
	return len(whole), err
}

// listed is the content of a directory.
type listed struct {
	Parts []part `json:"parts,omitempty"`
	Filed []part `json:"filed,omitempty"`
}

// list writes the directory of the parts that c names, or removes it.
func list(object *unstructured.Unstructured, c *content) error {
	annotations := object.GetAnnotations()
	delete(annotations, directory)
	if len(c.parts)+len(c.filed) > 0 {
		encoded, err := json.Marshal(listed{c.parts, c.filed})
		if err != nil {
			return err
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[directory] = string(encoded)
	}
	metadata, _, err := unstructured.NestedMap(object.Object, "metadata") // a copy: object may share its own
	object.Object["metadata"] = metadata
	object.SetAnnotations(annotations)
	return err
}

// find takes the parts from the directory if the spec lost them. A spec of that format always names some.
func (s *spec) find(object *unstructured.Unstructured) error {
	encoded, has := object.GetAnnotations()[directory]
	if !has || s.Format != formatParts || len(s.Parts)+len(s.Filed) > 0 {
		return nil
	}
	var l listed
	err := json.Unmarshal([]byte(encoded), &l)
	s.Parts, s.Filed = l.Parts, l.Filed
	return err
}

// kept returns an error for the first field of the sent spec that the API server dropped, or nil. Errors:
// *journal.RefusedError.
func kept(sent, got *unstructured.Unstructured) error {
	want, _ := sent.Object["spec"].(map[string]any)
	found, _ := got.Object["spec"].(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(want[field], found[field]) {
			return notKept(client.ObjectKeyFromObject(sent), field)
		}
	}
	return nil
}

func notKept(key client.ObjectKey, field string) error {
	return &journal.RefusedError{Where: "ledger " + key.String(), Found: "the API server did not keep spec." + field,
		Remedy: applyCRDs}
}

// applyCRDs is the remedy if the CRD is older than the Ledger.
const applyCRDs = "apply the CRDs of the version of bourse that wrote the Ledger, or of a later one: no " +
	"acknowledged event is lost"

// decode returns the content of object, and the state if the object has it, both verified without the
// parts. Errors: *journal.RefusedError.
func decode(object *unstructured.Unstructured) (*content, []byte, error) {
	encoded, err := json.Marshal(object.Object["spec"])
	var s spec
	if err == nil {
		err = json.Unmarshal(encoded, &s)
	}
	if err == nil {
		err = s.find(object)
	}
	var state []byte
	if err == nil {
		state, err = s.verify()
	}
	if err != nil {
		refused := refuse(client.ObjectKeyFromObject(object), err)
		if s.Format > formatParts {
			refused.Remedy = "start the version of bourse that wrote it, or a later one"
		}
		return nil, nil, refused
	}
	return &content{
		image: journal.Image{Base: s.Base, Records: s.Tail, Head: s.Head}, write: s.Write, seal: s.Seal,
		snapshot: s.Snapshot, parts: s.Parts, filed: s.Filed,
	}, state, nil
}

func refuse(key client.ObjectKey, found error) *journal.RefusedError {
	return &journal.RefusedError{
		Where: fmt.Sprintf("ledger %s/%s", key.Namespace, key.Name), Found: found.Error(),
		Remedy: "put back its spec as bourse wrote it, from a backup of the object and of its parts; nobody else may write " +
			"it. If you delete it, the agent forgets everything that it accepted",
	}
}

// verify checks the spec without the parts. It unpacks the state if the spec has it.
func (s *spec) verify() (state []byte, err error) {
	if s.Format != formatWhole && s.Format != formatParts {
		return nil, fmt.Errorf("spec.format is %d, this version knows %d and %d", s.Format, formatWhole, formatParts)
	}
	if len(s.Snapshot) > 0 {
		if state, err = unpack(s.Snapshot, MaxState); err != nil {
			return nil, fmt.Errorf("spec.snapshot: %w", err)
		}
	}
	if len(s.Parts) == 0 && s.Base.Seal(state) != s.Seal {
		return nil, errors.New("spec.base and spec.snapshot do not match spec.seal")
	}
	begin := s.Base
	if n := len(s.Filed); n > 0 && s.Filed[n-1].Revision > s.Base.Revision {
		if s.Filed[n-1].Hash == nil {
			return nil, errors.New("spec.filed has a part without a hash")
		}
		begin.Revision, begin.Hash = s.Filed[n-1].Revision, *s.Filed[n-1].Hash
	}
	tail := journal.Image{Base: begin, Records: s.Tail, Head: s.Head}
	return state, tail.Verify()
}

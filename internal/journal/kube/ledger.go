package kube

import (
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
	// MaxSize is the limit of the Ledger itself as JSON, in bytes: well under the 1.5 MiB that etcd takes.
	MaxSize = 900 << 10
	// MaxState is the limit of a snapshot before it is packed, in bytes.
	MaxState = 64 << 20
	// A Ledger without parts has format 1, as since the first release; one with parts has format 2.
	formatWhole, formatParts = 1, 2
)

// directory is the annotation in which a Ledger repeats what its spec names of parts. A CRD of a
// version before parts drops these fields at the next write; it cannot drop an annotation.
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

// part names an object that holds a part of the Ledger, and what it must hold.
type part struct {
	Part   int64        `json:"part"`
	Digest journal.Hash `json:"digest"`
	Size   int64        `json:"size"` // of its data, in bytes
	// Revision and Hash are of the head after the last batch in it; absent for a piece of the snapshot.
	Revision uint64        `json:"revision,omitempty"`
	Hash     *journal.Hash `json:"hash,omitempty"`
}

// content is what a Ledger says. The image holds all records, wherever they lie, but not the state.
type content struct {
	image    journal.Image
	write    string
	seal     journal.Hash
	snapshot []byte // packed, as it is written; empty where it lies in parts
	plain    int64  // the size of the state in it before it was packed
	parts    []part
	filed    []part
	last     []byte // the data of the last of filed
}

// filedTo is the revision up to which records are filed.
func (c *content) filedTo() uint64 {
	if len(c.filed) == 0 {
		return 0
	}
	return c.filed[len(c.filed)-1].Revision
}

// tail are the records in the Ledger itself.
func (c *content) tail() []journal.Record {
	return c.image.Records[len(c.image.Records)-c.inline():]
}

// inline is how many records are in the Ledger itself.
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

// size is what the content takes of so much space.
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

// weigh is how many bytes of events records hold.
func weigh(records []journal.Record) (sum int64) {
	for _, r := range records {
		for _, e := range r.Events {
			sum += int64(len(e))
		}
	}
	return sum
}

// used says whether the content names a part.
func (c *content) used(number int64) bool {
	is := func(p part) bool { return p.Part == number }
	return slices.ContainsFunc(c.parts, is) || slices.ContainsFunc(c.filed, is)
}

func newLedger(key client.ObjectKey) *unstructured.Unstructured {
	ledger := &unstructured.Unstructured{}
	ledger.SetGroupVersionKind(kind)
	ledger.SetNamespace(key.Namespace)
	ledger.SetName(key.Name)
	return ledger
}

// encode makes c the content of object, under the name of a new write, and returns how many bytes
// the object takes as JSON. ErrFull if the API server should not be asked to keep the result.
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
		err = fmt.Errorf("%w: it would take %d bytes of %d: take a snapshot, or end what takes the space",
			journal.ErrFull, len(whole), MaxSize)
	}
	return len(whole), err
}

// listed is what the directory of a Ledger says.
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

// find takes the parts from the directory where the spec has lost them: one of that format always names some.
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

// kept says which field of the spec that was sent the API server did not keep, or nil. Errors:
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

// applyCRDs is the remedy where the CRD is older than the Ledger.
const applyCRDs = "apply the CRDs of the version of bourse that wrote the Ledger, or of a later one: nothing that was acknowledged is lost"

// decode returns what object says, and the state if that is in it, both verified as far as the
// object goes, or a *journal.RefusedError.
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
		Remedy: "put back its spec as bourse wrote it, from a backup of the object and of its parts; nobody else may write it. To delete it makes the agent forget all that it accepted",
	}
}

// verify checks what can be checked without the parts, and unpacks the state if it is here.
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

// encodePart makes data what an object holds.
func encodePart(object *unstructured.Unstructured, data []byte) error {
	encoded, err := json.Marshal(struct {
		Format int64  `json:"format"`
		Data   []byte `json:"data"`
	}{formatParts, data})
	if err != nil {
		return err
	}
	var fields map[string]any
	err = json.Unmarshal(encoded, &fields)
	object.Object["spec"] = fields
	return err
}

// decodePart is what an object holds.
func decodePart(object *unstructured.Unstructured) ([]byte, error) {
	encoded, err := json.Marshal(object.Object["spec"])
	var s struct {
		Data []byte `json:"data"`
	}
	if err == nil {
		err = json.Unmarshal(encoded, &s)
	}
	return s.Data, err
}

func digest(data []byte) journal.Hash { return sha256.Sum256(data) }

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

// packRecords packs batches: of each its revision, its length and its encoding. What two calls
// return, one after the other, is what unpackRecords reads as all of them.
func packRecords(records []journal.Record) ([]byte, error) {
	var plain []byte
	for _, r := range records {
		encoded, err := journal.Encode(nil, r.Events)
		if err != nil {
			return nil, err
		}
		plain = binary.BigEndian.AppendUint64(plain, r.Revision)
		plain = binary.BigEndian.AppendUint32(plain, uint32(len(encoded)))
		plain = append(plain, encoded...)
	}
	return pack(plain)
}

func unpackRecords(packed []byte) (records []journal.Record, err error) {
	plain, err := unpack(packed, MaxState)
	for err == nil && len(plain) > 0 {
		if len(plain) < 12 {
			return nil, errors.New("it ends within a batch")
		}
		revision, size := binary.BigEndian.Uint64(plain), uint64(binary.BigEndian.Uint32(plain[8:]))
		if plain = plain[12:]; size > uint64(len(plain)) {
			return nil, errors.New("it ends within a batch")
		}
		var events [][]byte
		if events, err = journal.Decode(plain[:size]); err == nil {
			records = append(records, journal.Record{Revision: revision, Events: events})
		}
		plain = plain[size:]
	}
	return records, err
}

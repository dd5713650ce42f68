package kube

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json" // its integers are int64, as in objects

	"github.com/bourse-dev/bourse/internal/journal"
)

// encodePart makes data the content of a part.
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

// decodePart returns the content of a part.
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

// packRecords packs batches: for each its revision, its length and its encoding. The concatenation of two
// results is the packed form of all their batches.
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

package journal

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
)

// MaxBatch is the limit of one encoded batch, in bytes.
const MaxBatch = 64 << 20

// Hash is a SHA-256 hash; as text, 64 hexadecimal digits.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Hash) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	if err != nil || len(decoded) != len(h) {
		return fmt.Errorf("hash %q, want %d hexadecimal digits", text, 2*len(h))
	}
	copy(h[:], decoded)
	return nil
}

// Genesis returns the head of a new, empty journal, with a new lineage.
func Genesis() Head {
	lineage := rand.Text()
	return Head{Lineage: lineage, Hash: sha256.Sum256([]byte("bourse journal genesis\n" + lineage))}
}

// Renew returns the same point of history in a new lineage.
func (h Head) Renew() Head {
	h.Lineage = rand.Text()
	return h
}

// Next returns the head after a batch of n events with this encoding:
// hash = SHA-256(hash before ‖ new revision, 8 bytes big-endian ‖ encoding).
func (h Head) Next(n int, encoded []byte) Head {
	next := Head{Lineage: h.Lineage, Revision: h.Revision + uint64(n)}
	sum := sha256.New()
	sum.Write(h.Hash[:])
	sum.Write(binary.BigEndian.AppendUint64(nil, next.Revision))
	sum.Write(encoded)
	sum.Sum(next.Hash[:0])
	return next
}

// Follow returns the head after a stored batch, with its events, which share the memory of encoded. An error
// says why the batch does not follow h.
func (h Head) Follow(revision uint64, hash, encoded []byte) (next Head, events [][]byte, err error) {
	if events, err = Decode(encoded); err != nil {
		return Head{}, nil, fmt.Errorf("record %d: %w", revision, err)
	}
	next = h.Next(len(events), encoded)
	if next.Revision != revision || !bytes.Equal(next.Hash[:], hash) {
		return Head{}, nil, fmt.Errorf("record %d does not continue %v", revision, h)
	}
	return next, events, nil
}

// Seal returns the hash that binds a snapshot to its head. A journal without a snapshot seals its
// genesis and an empty state.
func (h Head) Seal(state []byte) (seal Hash) {
	sum := h.Sealing()
	sum.Write(state)
	sum.Sum(seal[:0])
	return seal
}

// Sealing returns a hash to write the state to. Its sum is the seal.
func (h Head) Sealing() hash.Hash {
	sum := sha256.New()
	fmt.Fprintf(sum, "bourse journal snapshot\n%d %v\n", h.Revision, h.Hash)
	return sum
}

// Encode appends the encoding of a batch to b: for each event its length, 4 bytes big-endian, and the
// event. Errors: ErrInvalid if the batch or an event is empty, or the encoding is longer than MaxBatch.
func Encode(b []byte, events [][]byte) ([]byte, error) {
	size := 0
	for i, event := range events {
		if len(event) == 0 {
			return nil, fmt.Errorf("%w: event %d of the batch is empty", ErrInvalid, i)
		}
		size += 4 + len(event)
	}
	if size == 0 || size > MaxBatch {
		return nil, fmt.Errorf("%w: a batch of %d events takes %d bytes, want 1 to %d", ErrInvalid, len(events), size,
			MaxBatch)
	}
	b = slices.Grow(b, size)
	for _, event := range events {
		b = binary.BigEndian.AppendUint32(b, uint32(len(event)))
		b = append(b, event...)
	}
	return b, nil
}

// Decode is the inverse of Encode, and accepts nothing else. The events share the memory of encoded.
func Decode(encoded []byte) ([][]byte, error) {
	if len(encoded) == 0 || len(encoded) > MaxBatch {
		return nil, fmt.Errorf("batch of %d bytes, want 1 to %d", len(encoded), MaxBatch)
	}
	var events [][]byte
	for rest := encoded; len(rest) > 0; {
		if len(rest) < 4 {
			return nil, fmt.Errorf("batch ends within the length of event %d", len(events))
		}
		size := uint64(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if size == 0 || size > uint64(len(rest)) {
			return nil, fmt.Errorf("event %d has a length of %d bytes, want 1 to %d", len(events), size, len(rest))
		}
		events = append(events, rest[:size:size])
		rest = rest[size:]
	}
	return events, nil
}

package sqlite

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"github.com/bourse-dev/bourse/internal/journal"
)

// headFile keeps the head outside of the database, because SQLite cannot notice that it lost its last
// transactions. It takes a flipped bit in its WAL for the end of the WAL, drops every later commit and
// reports a healthy database. An older copy of the files is healthy, too.
//
// Two slots are written in turn, so that a torn write leaves the other. A slot is written after the
// commit that it names, and is not synced. So after a power failure it may lag behind the database, but
// it never leads: a head that the database does not have proves a loss. If only the process dies, the
// kernel has the write, and nothing lags. The file is synced before a snapshot drops the records that an
// older slot names, and when a lineage begins.
type headFile struct {
	*os.File
	writes uint64 // of the newest slot; the next write goes to slot writes%2
}

// A slot has its own sector: a disk never writes less at once.
const slotSize = 512

var slotMagic = []byte("bourse\x00\x01")

// mark is the content of a head file.
type mark struct {
	head    *journal.Head // nil: the file is missing, empty or damaged
	damaged bool
	writes  uint64
}

// readHeadFile returns the newest valid slot.
func readHeadFile(path string) (kept mark, err error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return mark{}, err
	}
	kept.damaged = len(content) > 0
	for ; len(content) >= slotSize; content = content[slotSize:] {
		if head, writes, err := decodeSlot(content[:slotSize]); err == nil && writes >= kept.writes {
			kept = mark{head: &head, writes: writes}
		}
	}
	return kept, nil
}

func openHeadFile(path string, writes uint64) (*headFile, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &headFile{File: file, writes: writes}, nil
}

func (f *headFile) write(head journal.Head) error {
	slot, err := encodeSlot(head, f.writes+1)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(slot, int64((f.writes+1)%2)*slotSize); err != nil {
		return err
	}
	f.writes++
	return nil
}

// encodeSlot writes the magic and version (8 bytes), the number of the write (8), the revision (8), the
// hash (32), the length of the lineage (1), the lineage, zeros, and the SHA-256 of all that.
func encodeSlot(head journal.Head, writes uint64) ([]byte, error) {
	if len(head.Lineage) > 255 {
		return nil, fmt.Errorf("lineage of %d bytes, want at most 255", len(head.Lineage))
	}
	slot := make([]byte, 0, slotSize)
	slot = append(slot, slotMagic...)
	slot = binary.BigEndian.AppendUint64(slot, writes)
	slot = binary.BigEndian.AppendUint64(slot, head.Revision)
	slot = append(slot, head.Hash[:]...)
	slot = append(slot, byte(len(head.Lineage)))
	slot = append(slot, head.Lineage...)
	slot = slot[:slotSize-sha256.Size]
	sum := sha256.Sum256(slot)
	return append(slot, sum[:]...), nil
}

// decodeSlot accepts exactly what encodeSlot returns.
func decodeSlot(slot []byte) (head journal.Head, writes uint64, err error) {
	if len(slot) != slotSize || !bytes.HasPrefix(slot, slotMagic) {
		return head, 0, errors.New("not a slot of a head file")
	}
	writes = binary.BigEndian.Uint64(slot[8:])
	head.Revision = binary.BigEndian.Uint64(slot[16:])
	copy(head.Hash[:], slot[24:56])
	head.Lineage = string(slot[57 : 57+int(slot[56])])
	if again, err := encodeSlot(head, writes); err != nil || !bytes.Equal(again, slot) {
		return journal.Head{}, 0, errors.New("checksum of a head file's slot does not match")
	}
	return head, writes, nil
}

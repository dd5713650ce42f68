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

// headFile keeps the head outside of the database, because a database cannot tell that it lost its
// last transactions: SQLite takes a flipped bit in its WAL for the end of the WAL, drops every
// committed row behind it and reports a healthy database; and an older copy of the files put back is
// healthy by any measure.
//
// Two slots are written in turn, so a torn write leaves the other. A slot is written after the commit
// that it names and is not synced. So it may lag behind the database, when power fails, but never
// lead it: a head file that names what the database does not have is proof of a loss. When only the
// process dies it does not even lag, since the kernel has it. It is synced where a lag would leave
// nothing to compare: before a snapshot drops the records that an older slot names, and when a
// lineage begins.
type headFile struct {
	*os.File
	writes uint64 // of the newest slot; the next write goes to slot writes%2
}

// A slot has a sector of its own: disks write no less at once.
const slotSize = 512

var slotMagic = []byte("bourse\x00\x01")

// mark is what a head file says.
type mark struct {
	head    *journal.Head // nil: there is no file, or an empty one, or it is damaged
	damaged bool
	writes  uint64
}

// readHeadFile returns what the newest valid slot says.
func readHeadFile(path string) (said mark, err error) {
	content, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return mark{}, err
	}
	said.damaged = len(content) > 0
	for ; len(content) >= slotSize; content = content[slotSize:] {
		if head, writes, err := decodeSlot(content[:slotSize]); err == nil && writes >= said.writes {
			said = mark{head: &head, writes: writes}
		}
	}
	return said, nil
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

// encodeSlot lays out: magic and version, 8 bytes; number of the write, 8; revision, 8; hash, 32;
// lineage after its length, 1 byte; zeros; SHA-256 of all that.
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

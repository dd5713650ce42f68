package journal

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// Image is a whole journal in memory. Its methods are those of Journal without I/O.
type Image struct {
	Base    Head     // before Records
	State   []byte   // the snapshot at Base; empty: there is none
	Records []Record // after Base
	Head    Head     // after Records
}

// NewImage returns an empty journal with a new lineage.
func NewImage() Image {
	genesis := Genesis()
	return Image{Base: genesis, Head: genesis}
}

// Verify recomputes the chain from Base to Head.
func (i *Image) Verify() error {
	if i.Base.Lineage == "" {
		return errors.New("it has no lineage")
	}
	end, err := i.walk(len(i.Records))
	if err == nil && end != i.Head {
		err = fmt.Errorf("its records lead to %v, its head says %v", end, i.Head)
	}
	return err
}

// walk returns the head after the first n records.
func (i *Image) walk(n int) (Head, error) {
	head := i.Base
	for _, record := range i.Records[:n] {
		encoded, err := Encode(nil, record.Events)
		if err != nil {
			return Head{}, fmt.Errorf("record %d: %w", record.Revision, err)
		}
		head = head.Next(len(record.Events), encoded)
		if head.Revision != record.Revision {
			return Head{}, fmt.Errorf("record %d is in the place of %d", record.Revision, head.Revision)
		}
	}
	return head, nil
}

// upTo returns how many records end at a revision or before.
func (i *Image) upTo(revision uint64) (n int) {
	for n < len(i.Records) && i.Records[n].Revision <= revision {
		n++
	}
	return n
}

// At returns the head after the records up to a revision.
func (i *Image) At(revision uint64) (Head, error) { return i.walk(i.upTo(revision)) }

// Replay calls the callbacks of Load.
func (i *Image) Replay(onSnapshot func(Head, []byte) error, onRecord func(Record) error) error {
	if len(i.State) > 0 {
		if err := onSnapshot(i.Base, i.State); err != nil {
			return fmt.Errorf("replay snapshot at %v: %w", i.Base, err)
		}
	}
	for _, record := range i.Records {
		if err := onRecord(record); err != nil {
			return fmt.Errorf("replay record %d: %w", record.Revision, err)
		}
	}
	return nil
}

// Append adds a copy of events.
func (i *Image) Append(after Head, events [][]byte) error {
	encoded, err := Encode(nil, events)
	if err != nil {
		return err
	}
	if after != i.Head {
		return fmt.Errorf("append after %v, but the head is %v: %w", after, i.Head, ErrConflict)
	}
	kept, rest := make([][]byte, len(events)), encoded
	for n, event := range events {
		size := 4 + len(event)
		kept[n], rest = rest[4:size:size], rest[size:]
	}
	i.Head = i.Head.Next(len(kept), encoded)
	i.Records = append(i.Records, Record{Revision: i.Head.Revision, Events: kept})
	return nil
}

// Snapshot replaces the records up to head by a copy of state.
func (i *Image) Snapshot(head Head, state []byte) error {
	if len(state) == 0 {
		return fmt.Errorf("%w: a snapshot must not be empty", ErrInvalid)
	}
	replaced := i.upTo(head.Revision)
	if found, err := i.walk(replaced); err != nil {
		return err
	} else if found != head {
		return fmt.Errorf("snapshot at %v, but the journal has %v there: %w", head, found, ErrConflict)
	}
	i.Base, i.State = head, bytes.Clone(state)
	i.Records = slices.Clone(i.Records[replaced:])
	return nil
}

// NewLineage renames the lineage.
func (i *Image) NewLineage(after Head) error {
	if after != i.Head {
		return fmt.Errorf("new lineage after %v, but the head is %v: %w", after, i.Head, ErrConflict)
	}
	i.Head = i.Head.Renew()
	i.Base.Lineage = i.Head.Lineage
	return nil
}

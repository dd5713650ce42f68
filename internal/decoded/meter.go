// Package decoded bounds the memory that JSON takes once it is decoded. Three bytes, `{},`, can
// become a struct or a map of hundreds of bytes, so a bound on the bytes does not bound the memory.
package decoded

import "bytes"

// The estimated bytes of each part of JSON once decoded, besides its own text. The figures are those
// of encoding/json, for its untyped maps and slices and for the types of package api
// (TestCostIsAtLeastTheHeap).
const (
	perObject = 448
	perList   = 96
	perText   = 24
	perComma  = 48
)

// Meter estimates the memory of JSON in one pass, before anything is decoded. The zero Meter has read
// nothing.
type Meter struct {
	// Cost is the estimate for everything read so far, in bytes.
	Cost int64
	// Depth is the deepest nesting so far.
	Depth int
	// Null: a NUL byte was read, which is never valid.
	Null bool

	depth           int
	inText, escaped bool
}

// Cost estimates the memory of the decoded data, in bytes.
func Cost(data []byte) int64 {
	var m Meter
	m.Read(data)
	return m.Cost
}

// AtMost returns upper bounds of the Cost and the Depth of data. It only counts brackets, also those
// in texts, and is forty times as fast as a Meter.
func AtMost(data []byte) (cost int64, depth int) {
	objects, lists := bytes.Count(data, []byte{'{'}), bytes.Count(data, []byte{'['})
	return int64(len(data)*(1+perComma) + objects*perObject + lists*perList), objects + lists
}

// Read takes the next part of the JSON. Parts may end anywhere.
func (m *Meter) Read(data []byte) {
	cost := m.Cost + int64(len(data))
	inText, escaped := m.inText, m.escaped
	for _, c := range data {
		if inText {
			switch {
			case escaped:
				escaped = false
			case c == '\\':
				escaped = true
			case c == '"':
				inText = false
			case c == 0:
				m.Null = true
			}
			continue
		}
		switch c {
		case '"':
			inText = true
			cost += perText
		case ',':
			cost += perComma
		case '{', '[':
			if cost += perList; c == '{' {
				cost += perObject - perList
			}
			if m.depth++; m.depth > m.Depth {
				m.Depth = m.depth
			}
		case '}', ']':
			m.depth--
		case 0:
			m.Null = true
		}
	}
	m.Cost, m.inText, m.escaped = cost, inText, escaped
}

// Package decoded bounds how much memory JSON takes once it is decoded. Three bytes, `{},`, can become a struct of hundreds, or a map:
// a bound on bytes alone bounds no memory.
package decoded

// What each part of JSON is taken to become, in bytes, beside its own text. The figures are those of encoding/json, for the maps and slices that
// it makes where it knows no type, and for the types of package api (TestCostIsAtLeastTheHeap).
const (
	perObject = 448
	perList   = 96
	perText   = 24
	perComma  = 48
)

// Meter estimates what JSON becomes, in one pass and before anything is decoded. The zero Meter has read nothing.
type Meter struct {
	// Cost is the estimate for all that was read, in bytes.
	Cost int64
	// Depth is the deepest nesting that was read.
	Depth int
	// Null says that a NUL byte was read, which is never valid.
	Null bool

	depth           int
	inText, escaped bool
}

// Cost estimates what the decoded data takes, in bytes.
func Cost(data []byte) int64 {
	var m Meter
	m.Read(data)
	return m.Cost
}

// Read takes in the next part of the JSON. Parts may end anywhere.
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

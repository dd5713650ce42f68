package market

import (
	"bytes"
	"encoding/binary"
	"encoding/json"

	"github.com/bourse-dev/bourse/api"
)

// decoder reads what encoder writes, field by field in the same order, as [strictly] would, but without reflection: that was most
// of a broker's start. Whatever else it meets, such as a field that is new, is odd: then strictly reads it, and says what is wrong.
type decoder struct {
	b   []byte
	at  int
	odd bool
	known
}

// known is what was read before, of which there is little, so that it is kept once: short texts, and resources by their text. The
// zero value keeps nothing.
type known struct {
	texts     map[string]string
	resources map[string]api.Resources
}

func newKnown() known { return known{map[string]string{}, map[string]api.Resources{}} }

// done says whether all of it was read, and nothing of it was odd.
func (d *decoder) done() bool { return !d.odd && d.at == len(d.b) }

func (d *decoder) peek() byte {
	if d.at < len(d.b) {
		return d.b[d.at]
	}
	return 0
}

func (d *decoder) take(c byte) {
	if d.peek() != c {
		d.odd = true
		return
	}
	d.at++
}

// has says whether a field is the next one, and moves to its value. After its bracket an object's first has no comma before it.
func (d *decoder) has(field string) bool {
	if d.odd {
		return false
	}
	at := d.at
	if d.b[at-1] != '{' {
		if d.peek() != ',' {
			return false
		}
		at++
	}
	end := at + len(field) + 3
	if end > len(d.b) || d.b[at] != '"' || string(d.b[at+1:end-2]) != field || d.b[end-2] != '"' || d.b[end-1] != ':' {
		return false
	}
	d.at = end
	return true
}

func (d *decoder) list(element func()) {
	d.take('[')
	for n := 0; d.peek() != ']' && !d.odd; n++ {
		if n > 0 {
			d.take(',')
		}
		element()
	}
	d.take(']')
}

// entries are those of a map: the names of its fields say something. The value of each is for entry to read.
func (d *decoder) entries(entry func(name string)) {
	d.take('{')
	for n := 0; d.peek() != '}' && !d.odd; n++ {
		if n > 0 {
			d.take(',')
		}
		name := d.quotedName()
		d.take(':')
		entry(name)
	}
	d.take('}')
}

func (d *decoder) text(field string, into *string) {
	if d.has(field) {
		*into = d.quoted()
	}
}

// name is a text of which there are few.
func (d *decoder) name(field string, into *string) {
	if d.has(field) {
		*into = d.quotedName()
	}
}

func (d *decoder) names(field string, into *[]string) {
	if d.has(field) {
		*into = []string{}
		d.list(func() { *into = append(*into, d.quotedName()) })
	}
}

func (d *decoder) quoted() string { return d.unquote(d.quotes()) }

func (d *decoder) quotedPlain() string {
	text := d.quotes()
	d.odd = d.odd || !isPlain(text)
	return string(text)
}

func (d *decoder) quotedName() string {
	text := d.quotes()
	if name, is := d.texts[string(text)]; is {
		return name
	}
	name := d.unquote(text)
	if !d.odd && d.texts != nil {
		d.texts[string(text)] = name
	}
	return name
}

// quotes is what stands between quotes.
func (d *decoder) quotes() []byte {
	if d.peek() != '"' {
		d.odd = true
		return nil
	}
	begin := d.at + 1
	if d.skipText(); d.odd {
		return nil
	}
	return d.b[begin : d.at-1]
}

func (d *decoder) unquote(text []byte) (out string) {
	if isPlain(text) || d.odd {
		return string(text)
	}
	quoted := append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
	d.odd = json.Unmarshal(quoted, &out) != nil
	return out
}

// isPlain says whether all that stands between quotes stands for itself: ASCII without controls and backslashes. It looks at eight
// bytes at a time, because signed documents are long.
func isPlain(text []byte) bool {
	const each, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text) >= 8; text = text[8:] {
		// A byte that has its high bit after one of these is one that has it now, is less than a space, or a backslash.
		b := binary.LittleEndian.Uint64(text)
		if (b|(b-each*' ')|(b^each*'\\'-each))&high != 0 {
			return false
		}
	}
	for _, c := range text {
		if c < ' ' || c == '\\' || c > '\x7f' {
			return false
		}
	}
	return true
}

func (d *decoder) number(field string, into *Time) { d.integer(field, (*int64)(into)) }

// small is a field that holds 32 bits; 0 if it is not there.
func (d *decoder) small(field string) (v int32) {
	if d.has(field) {
		wide := d.digits()
		v = int32(wide)
		d.odd = d.odd || int64(v) != wide
	}
	return v
}

func (d *decoder) unsigned(field string, into *uint64) {
	if d.has(field) {
		v := d.digits()
		d.odd = d.odd || v < 0
		*into = uint64(v)
	}
}

func (d *decoder) integer(field string, into *int64) {
	if d.has(field) {
		*into = d.digits()
	}
}

// digits is a whole number of at most 18 of them: all that are longer are odd.
func (d *decoder) digits() (v int64) {
	sign := int64(1)
	if d.peek() == '-' {
		sign = -1
		d.at++
	}
	begin := d.at
	for ; d.peek() >= '0' && d.peek() <= '9' && d.at-begin < 18; d.at++ {
		v = 10*v + int64(d.b[d.at]-'0')
	}
	switch n := d.at - begin; {
	case n == 0, n > 1 && d.b[begin] == '0':
		d.odd = true
	}
	return sign * v // what follows must be the next field, or the end: another digit, or a point, is odd there
}

// value is for what is small or rare.
func (d *decoder) value(field string, into any) {
	if d.has(field) {
		d.strictly(into)
	}
}

// strictly reads the next value, whatever it is.
func (d *decoder) strictly(into any) {
	begin := d.at
	d.skip()
	if !d.odd && strictly(d.b[begin:d.at], into) != nil {
		d.odd = true
	}
}

// skip moves past the next value.
func (d *decoder) skip() {
	for depth := 0; d.at < len(d.b) && !d.odd; {
		switch d.b[d.at] {
		case '"':
			d.skipText()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
		case ',':
			if depth == 0 {
				return
			}
		}
		d.at++
	}
	d.odd = true // there is always something after it
}

// skipText moves past a text.
func (d *decoder) skipText() {
	for d.at++; ; d.at++ {
		end := bytes.IndexByte(d.b[d.at:], '"')
		if end < 0 {
			d.at, d.odd = len(d.b), true
			return
		}
		slashes := 0
		for slashes < end && d.b[d.at+end-1-slashes] == '\\' {
			slashes++
		}
		if d.at += end; slashes%2 == 0 { // else it is one of the text's own
			d.at++
			return
		}
	}
}

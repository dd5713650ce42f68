package pages

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/a-h/templ"

	"github.com/bourse-dev/bourse/api"
)

// longestText is how many bytes of a text between two tags a page shows, but for objects, and for what a user edits.
const longestText = 4000

// allVisible is a page with each character of its texts visible, no matter who wrote them: see [visibleWriter].
func allVisible(page templ.Component) templ.Component {
	return templ.ComponentFunc(func(ctx context.Context, w io.Writer) error {
		out := &visibleWriter{w: w}
		if err := page.Render(ctx, out); err != nil {
			return err
		}
		return out.flush()
	})
}

// visibleWriter writes HTML on. In the texts between tags it replaces characters that hide something, such as those that
// turn the direction of text, and it cuts texts that are too long. So no page depends on each of its texts being
// [Foreign].
type visibleWriter struct {
	w      io.Writer
	out    []byte // not written yet
	part   []byte // the beginning of a character
	tag    bool   // within < and >
	head   []byte // the beginning of the last tag
	length int    // of the text so far
}

// Write implements io.Writer.
func (v *visibleWriter) Write(p []byte) (int, error) {
	text := p
	if len(v.part) > 0 {
		text = append(v.part, p...)
	}
	for len(text) > 0 {
		n := bytes.IndexFunc(text, func(c rune) bool { return c == '<' || c == '>' || c >= utf8.RuneSelf || c < ' ' })
		if n != 0 {
			if n < 0 {
				n = len(text)
			}
			v.put(text[:n])
			text = text[n:]
			continue
		}
		if !utf8.FullRune(text) {
			break
		}
		c, size := utf8.DecodeRune(text)
		v.character(c, text[:size])
		text = text[size:]
		if len(v.out) >= 4<<10 {
			if err := v.flush(); err != nil {
				return 0, err
			}
		}
	}
	v.part = bytes.Clone(text)
	return len(p), nil
}

// character writes one that is not plain.
func (v *visibleWriter) character(c rune, text []byte) {
	switch {
	case c == '<':
		v.tag, v.head = true, v.head[:0]
		v.out = append(v.out, '<')
	case c == '>' && v.tag:
		v.tag, v.length = false, 0
		v.out = append(v.out, '>')
	case v.tag || v.in("textarea") || c == '\n' || c == '\t' || !api.Invisible(c):
		v.put(text)
	default:
		v.put(fmt.Appendf(nil, "U+%04X", c))
	}
}

// put writes a part of a tag or of a text: ASCII, or a whole character.
func (v *visibleWriter) put(text []byte) {
	switch {
	case v.tag:
		v.head = append(v.head, text[:min(len(text), max(0, 12-len(v.head)))]...)
	case v.in("textarea"), v.in("pre"):
	case v.length > longestText: // it was cut
		return
	case v.length+len(text) > longestText:
		if text[0] < utf8.RuneSelf {
			v.out = append(v.out, text[:longestText-v.length]...)
		}
		v.out = append(v.out, "…"...)
		v.length = longestText + 1
		return
	default:
		v.length += len(text)
	}
	v.out = append(v.out, text...)
}

// in reports whether a text is in such an element.
func (v *visibleWriter) in(element string) bool { return bytes.HasPrefix(v.head, []byte(element)) }

// flush writes what is not written yet.
func (v *visibleWriter) flush() error {
	_, err := v.w.Write(v.out)
	v.out = v.out[:0]
	return err
}

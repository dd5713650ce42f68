package cli

import (
	"bytes"
	"io"
	"os"
	"unicode"
	"unicode/utf8"
)

// screen is a terminal. Brokers, sellers and members choose parts of what it shows: a character that cannot be printed
// would move the cursor, or hide a line, and is shown as U+FFFD.
type screen struct{ file *os.File }

// onScreen returns what writes texts to a terminal. Anything else, such as a file, gets texts as they are.
func onScreen(to io.Writer) io.Writer {
	if file, ok := to.(*os.File); ok && terminal(file) {
		return screen{file}
	}
	return to
}

// Write implements io.Writer.
func (s screen) Write(text []byte) (int, error) {
	_, err := s.file.Write(bytes.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, text))
	if err != nil {
		return 0, err
	}
	return len(text), nil
}

// clear empties the terminal.
func (s screen) clear() { _, _ = s.file.WriteString("\x1b[H\x1b[2J") }

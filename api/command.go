package api

import (
	"regexp"
	"strings"
	"unicode"
)

// Command is a command with its arguments, as a program runs it without a shell.
type Command []string

// plainWord is a word that no shell changes.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// String returns the command as a user pastes it into a shell. A character that nobody sees is U+FFFD there: no name of an
// object has it.
func (c Command) String() string {
	words := make([]string, len(c))
	for i, word := range c {
		if words[i] = word; !plainWord.MatchString(word) {
			word = strings.Map(func(c rune) rune {
				if Invisible(c) && c != '\n' && c != '\t' {
					return unicode.ReplacementChar
				}
				return c
			}, word)
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Invisible reports whether a character is shown as nothing, or turns the direction of what follows: control characters,
// also of lines, and formats.
func Invisible(c rune) bool {
	return unicode.IsControl(c) || unicode.In(c, unicode.Cf, unicode.Zl, unicode.Zp)
}

// after returns the remedy that consists of the command, and of what users read before it.
func (c Command) after(before string) string {
	if before != "" {
		before += ": "
	}
	return before + c.String()
}

// FixBy names the one command that is the remedy. before is what users read before it, such as "see"; it may be empty.
func (e *Error) FixBy(before string, argv ...string) *Error {
	e.Remedy, e.Argv = Command(argv).after(before), argv
	return e
}

// By returns the problem with one command as its remedy. before is as that of [Error.FixBy].
func (p Problem) By(before string, argv ...string) Problem {
	p.Remedy, p.Argv = Command(argv).after(before), argv
	return p
}

// Command lines prints how large the production Go of the listed files is, by group of packages: all lines, those with
// code, and tokens. Tokens do not depend on how code is wrapped. No goal hangs on the figures.
//
// It reads the names of files from its standard input, one a line, as `git ls-files` prints them. Tests, packages for
// tests and generated files do not count.
package main

import (
	"bufio"
	"cmp"
	"fmt"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// size is how large some files are.
type size struct{ lines, code, tokens int }

func (s size) plus(o size) size { return size{s.lines + o.lines, s.code + o.code, s.tokens + o.tokens} }

var notCounted = regexp.MustCompile(`_test\.go$|zz_generated|_templ\.go$|[a-z]+test/|/testdata/`)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "lines:", err)
		os.Exit(1)
	}
}

func run() error {
	groups, all := map[string]size{}, size{}
	names := bufio.NewScanner(os.Stdin)
	for names.Scan() {
		name := names.Text()
		if !strings.HasSuffix(name, ".go") || notCounted.MatchString(name) {
			continue
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		of, group := measure(source), groupOf(name)
		groups[group] = groups[group].plus(of)
		if group != "internal/compat" {
			all = all.plus(of)
		}
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(w, "LINES\tCODE\tTOKENS\tTOKENS A LINE\t  GROUP")
	row := func(name string, s size) {
		_, _ = fmt.Fprintf(w, "%d\t%d\t%d\t%.2f\t  %s\n", s.lines, s.code, s.tokens, float64(s.tokens)/float64(max(s.code, 1)), name)
	}
	for _, name := range slices.SortedFunc(maps.Keys(groups), func(a, b string) int {
		return cmp.Compare(groups[b].tokens, groups[a].tokens)
	}) {
		row(name, groups[name])
	}
	row("all but internal/compat", all)
	return cmp.Or(names.Err(), w.Flush())
}

// groupOf returns the group of a file: its first folder, two in internal, and three in internal/agent.
func groupOf(name string) string {
	parts := strings.Split(name, "/")
	depth := 1
	switch {
	case strings.HasPrefix(name, "internal/agent/"):
		depth = 3
	case strings.HasPrefix(name, "internal/"):
		depth = 2
	}
	return strings.Join(parts[:min(depth, len(parts)-1)], "/")
}

// measure returns how large a file is. Lines with comments alone are no code.
func measure(source []byte) size {
	var s scanner.Scanner
	files := token.NewFileSet()
	file := files.AddFile("", -1, len(source))
	s.Init(file, source, nil, 0)
	code, tokens := map[int]bool{}, 0
	for {
		at, kind, text := s.Scan()
		if kind == token.EOF {
			return size{lines: file.LineCount(), code: len(code), tokens: tokens}
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue // the scanner adds it at the end of a line
		}
		tokens++
		code[file.Line(at)] = true
	}
}

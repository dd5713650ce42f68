package server_test

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/internal/server"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

var update = flag.Bool("update", false, "write docs/openapi.yaml")

// The committed descriptions of the broker's API and of the agent's are those of the code.
func TestOpenAPI(t *testing.T) {
	checkDescription(t, "../../docs/openapi.yaml", servertest.Start(t, servertest.Options{}).Server)
	checkDescription(t, "../../docs/openapi-agent.yaml", server.Local(nil, nil, 1, slog.New(slog.DiscardHandler)))
}

func checkDescription(t *testing.T, file string, s *server.Server) {
	t.Helper()
	described, err := s.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	described = withComments(described, comments(t, "../../api"))
	if *update {
		if err := os.WriteFile(file, described, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(committed, described) {
		t.Errorf("%s is stale (%v): run go test ./internal/server -run TestOpenAPI -update", file, err)
	}
}

// withComments adds the comments of types and fields to a description, for readers of the file. A
// server does not have them: its description has no descriptions of fields.
func withComments(described []byte, of map[string]map[string]string) []byte {
	kind, property := regexp.MustCompile(`^    (\w+):$`), regexp.MustCompile(`^        (\w+):$`)
	var out strings.Builder
	in := ""
	for line := range strings.Lines(string(described)) {
		out.WriteString(line)
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "    ") && line != "  schemas:" {
			in = ""
		}
		text, indent := "", "      "
		if found := kind.FindStringSubmatch(line); found != nil {
			in = found[1]
			text = of[in][""]
		} else if found := property.FindStringSubmatch(line); found != nil {
			text, indent = of[in][found[1]], "          "
		}
		if text != "" {
			fmt.Fprintf(&out, "%sdescription: %s\n", indent, strconv.Quote(text))
		}
	}
	return []byte(out.String())
}

// comments returns the comments of a package's types, by type and JSON name. That of the type itself
// has an empty name.
func comments(t *testing.T, dir string) map[string]map[string]string {
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal("no code in", dir, err)
	}
	out, embedded := map[string]map[string]string{}, map[string][]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE || len(d.Specs) != 1 {
				return true
			}
			spec := d.Specs[0].(*ast.TypeSpec)
			of := map[string]string{"": oneLine(d.Doc)}
			out[spec.Name.Name] = of
			structure, ok := spec.Type.(*ast.StructType)
			if !ok {
				return false
			}
			for _, field := range structure.Fields.List {
				tag := ""
				if field.Tag != nil {
					unquoted, _ := strconv.Unquote(field.Tag.Value)
					tag, _, _ = strings.Cut(reflect.StructTag(unquoted).Get("json"), ",")
				}
				if part, ok := field.Type.(*ast.Ident); ok && len(field.Names) == 0 {
					embedded[spec.Name.Name] = append(embedded[spec.Name.Name], part.Name)
				}
				if tag != "" {
					of[tag] = oneLine(field.Doc)
				}
			}
			return false
		})
	}
	for range 3 { // embedded in embedded ones
		for kind, parts := range embedded {
			for _, part := range parts {
				own := maps.Clone(out[kind])
				maps.Copy(out[kind], out[part])
				maps.Copy(out[kind], own)
			}
		}
	}
	return out
}

// oneLine returns a comment without markers of generators.
func oneLine(doc *ast.CommentGroup) string {
	var words []string
	for line := range strings.Lines(doc.Text()) {
		if !strings.HasPrefix(line, "+") {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

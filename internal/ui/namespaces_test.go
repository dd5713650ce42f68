package ui

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The namespaces that a user chose are those of a context at a server, until others or none are chosen. What is damaged is
// nothing, and what is too much goes.
func TestNamespacesAreRemembered(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "settings"))
	check := func(context, server string, want ...string) {
		t.Helper()
		if got := RememberedNamespaces(context, server); !slices.Equal(got, want) {
			t.Errorf("%s at %s: %v, want %v", context, server, got, want)
		}
	}
	keep := func(context, server string, names ...string) {
		t.Helper()
		if err := RememberNamespaces(context, server, names); err != nil {
			t.Fatal(err)
		}
	}
	keep("rome", "https://a")
	if _, err := os.Stat(filepath.Dir(namespacesFile())); err == nil {
		t.Error("nothing makes a file")
	}
	keep("rome", "https://a", "team-a", "team-b")
	keep("rome", "https://b", "team-c")
	keep("milan", "https://a", "team-d")
	if info, err := os.Stat(namespacesFile()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	check("rome", "https://a", "team-a", "team-b")
	check("rome", "https://c")
	keep("rome", "https://a", "team-a", "<script>")
	check("rome", "https://a", "team-a", "team-b")
	keep("rome", "https://a", "team-e")
	check("rome", "https://a", "team-e")
	keep("rome", "https://a")
	check("rome", "https://a")
	check("rome", "https://b", "team-c")
	check("milan", "https://a", "team-d")

	for i := range mostRemembered {
		keep(fmt.Sprint("c", i), "s", "team")
	}
	check("rome", "https://b")
	check("c0", "s", "team")
	var many []string
	for i := range mostNamed {
		many = append(many, fmt.Sprintf("a-namespace-with-the-longest-name-that-one-of-them-may-have-%d", i))
	}
	for i := range 10 {
		keep(fmt.Sprint("many", i), "s", many...)
		if info, err := os.Stat(namespacesFile()); err != nil || info.Size() > mostMemory {
			t.Errorf("the file has %d bytes: %v", info.Size(), err)
		}
	}
	check("many0", "s")
	check("many9", "s", many...)
	if err := RememberNamespaces("rome", "https://a", append(many, "team")); err == nil {
		t.Error("too many namespaces are kept")
	}
	check("many9", "s", many...)

	for _, text := range []string{"", "[", "{}", `[{"context":"rome","server":"https://b","namespaces":["a","` + "\x1b[2J" + `"]}]`,
		`[{"context":"rome","server":"https://b","namespaces":[""]}]`,
		`[{"context":"rome","server":"https://b","namespaces":["team-c"]}]` + strings.Repeat(" ", mostMemory)} {
		put(t, namespacesFile(), text)
		check("rome", "https://b")
	}
	keep("rome", "https://b", "team-f")
	check("rome", "https://b", "team-f")
}

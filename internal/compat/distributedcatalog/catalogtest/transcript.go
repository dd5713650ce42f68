// Package catalogtest replays what clients of the Distributed Catalog ask, and compares the
// transcript with a golden file.
package catalogtest

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the transcripts in testdata")

// Transcript is what was asked and answered, in order: a golden file in testdata that reads as the
// reference of the interface.
type Transcript struct {
	T testing.TB
	// URL is where is asked, and the golden file says BROKER.
	URL  string
	text strings.Builder
}

// random is what is another in each run, and how the golden file has it.
var random = []struct {
	is  *regexp.Regexp
	has string
}{
	{regexp.MustCompile(`[A-Z2-7]{26}|SHA256:[A-Za-z0-9_-]{43}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "RANDOM"},
	{regexp.MustCompile(`r-[a-z2-7]{16}`), "RESERVATION"},
	{regexp.MustCompile(`("(created|until)": )(1[7-9]|2)[0-9]{8}\b`), "${1}TIME"},
	{regexp.MustCompile(`20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:[0-9]+`), "ADDRESS"},
}

// Say notes what is done meanwhile.
func (s *Transcript) Say(format string, args ...any) {
	fmt.Fprintf(&s.text, "# "+format+"\n\n", args...)
}

// Ask makes a call, notes it with its answer, and returns the body.
func (s *Transcript) Ask(who string, by *http.Client, method, path, body string, header ...string) []byte {
	s.T.Helper()
	data, status := Call(s.T, by, method, s.URL+path, body, header...)
	fmt.Fprintf(&s.text, "> %s: %s %s\n", who, method, path)
	if body != "" {
		fmt.Fprintf(&s.text, "%s\n", indented([]byte(body)))
	}
	fmt.Fprintf(&s.text, "< %d\n%s\n\n", status, indented(data))
	return data
}

// Call makes a call, with JSON if there is a body, and returns what is answered.
func Call(t testing.TB, by *http.Client, method, url, body string, header ...string) ([]byte, int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := by.Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, url, err)
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return data, answer.StatusCode
}

// indented is JSON for people; JSON in a text is shown as what it says.
func indented(data []byte) string {
	var out bytes.Buffer
	var text string
	if json.Unmarshal(data, &text) == nil && json.Indent(&out, []byte(text), "  ", "  ") == nil {
		return "  (in a text)\n  " + out.String()
	}
	out.Reset()
	if json.Indent(&out, bytes.TrimSpace(data), "  ", "  ") != nil {
		return "  " + string(data)
	}
	return "  " + out.String()
}

// Compare compares with a golden file.
func (s *Transcript) Compare(name string) {
	s.T.Helper()
	text := strings.ReplaceAll(s.text.String(), s.URL, "BROKER")
	for _, r := range random {
		text = r.is.ReplaceAllString(text, r.has)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			s.T.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		s.T.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), text); diff != "" {
		s.T.Errorf("not as in %s (-update writes it):\n%s", file, diff)
	}
}

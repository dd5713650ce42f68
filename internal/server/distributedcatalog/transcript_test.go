package distributedcatalog_test

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

var update = flag.Bool("update", false, "write the transcripts in testdata anew")

// transcript is what was asked and answered, in order: a golden file in testdata that reads as the reference of the interface.
type transcript struct {
	t       *testing.T
	url     string
	text    strings.Builder
	replace *strings.Replacer
}

var random = regexp.MustCompile(`[A-Z2-7]{26}|SHA256:[A-Za-z0-9_-]{43}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// say notes what is done meanwhile.
func (s *transcript) say(format string, args ...any) {
	fmt.Fprintf(&s.text, "# "+format+"\n\n", args...)
}

// ask makes a call, notes it with its answer, and returns the body.
func (s *transcript) ask(who string, by *http.Client, method, path, body string, header ...string) []byte {
	s.t.Helper()
	data, status := call(s.t, by, method, s.url+path, body, header...)
	fmt.Fprintf(&s.text, "> %s: %s %s\n", who, method, path)
	if body != "" {
		fmt.Fprintf(&s.text, "%s\n", indented([]byte(body)))
	}
	fmt.Fprintf(&s.text, "< %d\n%s\n\n", status, indented(data))
	return data
}

func call(t *testing.T, by *http.Client, method, url, body string, header ...string) ([]byte, int) {
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

func indented(data []byte) string {
	var out bytes.Buffer
	if json.Indent(&out, bytes.TrimSpace(data), "  ", "  ") != nil {
		return "  " + string(data)
	}
	return "  " + out.String()
}

// compare compares with the golden file.
func (s *transcript) compare(name string) {
	s.t.Helper()
	text := s.text.String()
	if s.replace != nil {
		text = s.replace.Replace(text)
	}
	text = random.ReplaceAllString(strings.ReplaceAll(text, s.url, "BROKER"), "RANDOM")
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	golden, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(string(golden), text); diff != "" {
		s.t.Errorf("not as in %s (-update writes it anew):\n%s", file, diff)
	}
}

package server_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/server/servertest"
)

// A watch is an ordinary answer of HTTP/1.1, to its last chunk, though it takes its connection over; older clients are told what they lack.
func TestWatchIsAnAnswer(t *testing.T) {
	f := servertest.Start(t, servertest.Options{})
	rome := f.Join("rome")
	call := func(protocol string) *http.Response {
		t.Helper()
		conn, err := tls.Dial("tcp", strings.TrimPrefix(f.URL, "https://"), rome.HTTP.Transport.(*http.Transport).TLSClientConfig)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if _, err := fmt.Fprintf(conn, "GET /apis/bourse.dev/v1alpha1/watch %s\r\nHost: broker\r\n\r\n", protocol); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	old := call("HTTP/1.0")
	if said, err := io.ReadAll(old.Body); err != nil || old.StatusCode != http.StatusUnprocessableEntity || !strings.Contains(string(said), "use HTTP/1.1") {
		t.Errorf("HTTP/1.0: %d %s, %v", old.StatusCode, said, err)
	}
	answer := call("HTTP/1.1")
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%+v", answer)
	}
	lines := json.NewDecoder(answer.Body)
	var last api.WatchEvent
	for last.Type != api.WatchBookmark {
		if err := lines.Decode(&last); err != nil {
			t.Fatal(err)
		}
	}
	f.Exchange.EndWatches()
	if err := lines.Decode(&last); err != nil || last.Type != api.WatchEnd || last.Error == nil {
		t.Errorf("the end is %+v, %v", last, err)
	}
	if err := lines.Decode(&last); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
}

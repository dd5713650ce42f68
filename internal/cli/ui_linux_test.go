package cli

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bourse-dev/bourse/internal/ui"
)

// The browser is started with the path of a file that only its owner reads. Arguments of programs are for all to read.
func TestTheBrowserIsStartedWithoutACode(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\" > " + dir + "/started.new && mv " + dir + "/started.new " + dir + "/started\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"PATH": dir + ":" + os.Getenv("PATH"), "DISPLAY": ":0", "SSH_CONNECTION": "",
		"XDG_RUNTIME_DIR": dir} {
		t.Setenv(name, value)
	}
	listener, err := ui.Listen("", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	s, err := ui.StartOperator(nil, "hall", listener, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	remove := openBrowser(t.Context(), s, "/members")
	var arguments []byte
	for deadline := time.Now().Add(20 * time.Second); len(arguments) == 0; time.Sleep(10 * time.Millisecond) {
		if arguments, _ = os.ReadFile(filepath.Join(dir, "started")); time.Now().After(deadline) {
			t.Fatal("no browser was started")
		}
	}
	file := strings.TrimSpace(string(arguments))
	if page, err := os.ReadFile(file); err != nil || filepath.Dir(file) != filepath.Join(dir, "bourse", "ui") ||
		!strings.Contains(string(page), "/members") {
		t.Errorf("the browser was started with %q: %v", file, err)
	}
	remove()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("the file stays: %v", err)
	}
}

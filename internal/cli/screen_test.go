package cli

import (
	"bytes"
	"io"
	"os"
	"testing"
)

// A text of another party moves no cursor of a terminal and hides no line there. A file gets it as it is.
func TestTextsOnATerminal(t *testing.T) {
	const text = "milan\x1b[2J\r\b\u009b1A\u202eolso\x9b größer\tyes\n"
	shown, file, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.WriteString(screen{file}, text); n != len(text) || err != nil {
		t.Errorf("it wrote %d bytes, %v", n, err)
	}
	_ = file.Close()
	got, err := io.ReadAll(shown)
	if want := "milan\ufffd[2J\ufffd\ufffd\ufffd1A\ufffdolso\ufffd größer\tyes\n"; err != nil || string(got) != want {
		t.Errorf("it shows %q, %v, want %q", got, err, want)
	}
	var kept bytes.Buffer
	if _, err := io.WriteString(onScreen(&kept), text); err != nil || kept.String() != text {
		t.Errorf("a file has %q, %v", kept.String(), err)
	}
}

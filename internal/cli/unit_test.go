package cli

import (
	"io"
	"os"
	"strings"
	"testing"
)

// The unit of docs/broker.md starts a broker with flags that it has.
func TestTheUnitOfABrokerHasItsFlags(t *testing.T) {
	text, err := os.ReadFile("../../docs/examples/bourse-broker.service")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(strings.ReplaceAll(string(text), "\\\n", " "), "\nExecStart=")
	line, _, _ := strings.Cut(rest, "\n")
	words := strings.Fields(line)
	if !found || len(words) < 2 || words[0] != "/usr/local/bin/bourse" {
		t.Fatalf("it starts %q", words)
	}
	command, args, err := Root(io.Discard, io.Discard).Find(words[1:])
	if err != nil || command.Name() != "broker" {
		t.Fatalf("%q is %s, %v", words[1:], command.Name(), err)
	}
	if err := command.ParseFlags(args); err != nil || command.Flags().NArg() != 0 {
		t.Errorf("%q: %v", args, err)
	}
}

// Command bourse is the broker, the agent and the command line of Bourse.
package main

import (
	"os"

	"github.com/bourse-dev/bourse/internal/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr))
}

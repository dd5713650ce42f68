package main

import (
	"strings"
	"testing"
)

func TestFlagsThatDoNotGoTogether(t *testing.T) {
	for args, want := range map[string]string{
		"--without-liqo --network": "--without-liqo goes with no other flag",
		"--real --storage":         "--real goes with no other flag",
		"--storage --network":      "choose --storage or --network",
		"--nosuch":                 "usage: lab [--without-liqo",
		"serve":                    `unknown argument "serve"`,
	} {
		if err := run(t.Context(), strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("lab %s: %v, want %s", args, err, want)
		}
	}
}

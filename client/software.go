package client

import (
	"runtime/debug"
	"sync"
)

// userAgent names this program and its version in each call, as "bourse/v0.1.0". Operators see it of each member.
var userAgent = sync.OnceValue(func() string { return "bourse/" + Version() })

// Version returns the version of the program, as the build stamped it: "(devel)" without a stamp.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// Commit returns the commit from which the program was built, as the build stamped it, or "" without a stamp.
func Commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				return setting.Value
			}
		}
	}
	return ""
}

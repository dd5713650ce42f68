package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"
)

// platform is where a program runs, in the words of Go.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "/" + p.arch }

// program is a compiled bourse, and how it was built.
type program struct {
	platform
	version string // a tag of an image may have it
	binary  []byte
	info    *debug.BuildInfo
	commit  time.Time // of the commit; zero if nothing is stamped
}

// build compiles bourse. The environment of the caller chooses nothing that changes the bytes, except the Go release.
func build(ctx context.Context, s settings, p platform) (program, error) {
	dir, err := os.MkdirTemp("", "bourse-release-")
	if err != nil {
		return program{}, err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintf(os.Stderr, "compiling bourse for %s; from nothing this takes some minutes ...\n", p)
	out := filepath.Join(dir, "bourse")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", out,
		"./cmd/bourse")
	cmd.Dir, cmd.Stderr = s.source, os.Stderr
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off",
		"GOEXPERIMENT=", "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
	if err := cmd.Run(); err != nil {
		return program{}, fmt.Errorf("compile bourse for %s: %w", p, err)
	}
	info, err := buildinfo.ReadFile(out)
	if err != nil {
		return program{}, err
	}
	built := program{platform: p, version: info.Main.Version, info: info}
	if s.dev {
		built.version = "dev"
	} else if err := checkVersion(built.version); err != nil {
		return program{}, err
	}
	built.commit, _ = time.Parse(time.RFC3339, built.setting("vcs.time"))
	built.binary, err = os.ReadFile(out)
	return built, err
}

// checkVersion refuses a program of which nobody could say later from which commit it was built.
func checkVersion(version string) error {
	const dev = "; or make one for yourself alone: DEV=1"
	switch {
	case version == "" || version == "(devel)":
		return fmt.Errorf("go stamped no version: build in a clone, which has a folder .git (a worktree has a file)" + dev)
	case strings.HasSuffix(version, "+dirty"):
		return fmt.Errorf("version %s: commit or remove what git status shows"+dev, version)
	}
	return nil
}

// setting is what go stamped under this name, empty if nothing.
func (p program) setting(key string) string {
	for _, s := range p.info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// fileName is the start of the names of what is made for laptops.
func (p program) fileName() string { return fmt.Sprintf("bourse-%s-%s-%s", p.version, p.os, p.arch) }

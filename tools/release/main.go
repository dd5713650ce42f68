// Command release makes what people install: images of the program, and archives of it for laptops. The same commit
// gives the same bytes on every machine.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
)

// settings are the flags.
type settings struct {
	source, out string // the repository, and the folder of what is made
	platforms   []platform
	registry    string // where to push the image, such as registry.example.org/team; empty: nowhere
	dev         bool   // the program may have changes that no commit has
}

const usage = `usage: release [flags] images|cli

images  makes an archive of OCI with all platforms, and one of Docker for each platform
cli     makes an archive of the program for each platform, with checksums

`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var s settings
	var platforms string
	f := flag.NewFlagSet("release", flag.ExitOnError)
	f.Usage = func() { fmt.Fprint(f.Output(), usage); f.PrintDefaults() }
	f.StringVar(&s.source, "source", ".", "the repository")
	f.StringVar(&s.out, "out", "dist", "the folder of what is made")
	f.StringVar(&platforms, "platforms", "", "only these, such as linux/amd64,linux/arm64")
	f.StringVar(&s.registry, "registry", "", "push the image bourse to it, such as registry.example.org/team")
	f.BoolVar(&s.dev, "dev", false, "allow changes that no commit has; the version is then dev-DIGEST")
	if err := f.Parse(args); err != nil {
		return err
	}
	maker, known := makers[f.Arg(0)]
	if !known || f.NArg() != 1 {
		f.Usage()
		return flag.ErrHelp
	}
	for _, text := range strings.Split(cmp.Or(platforms, maker.platforms), ",") {
		system, arch, is := strings.Cut(text, "/")
		if !is {
			return fmt.Errorf("-platforms: %q is no platform: write linux/amd64", text)
		}
		s.platforms = append(s.platforms, platform{system, arch})
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	return maker.do(ctx, s)
}

var makers = map[string]struct {
	do        func(context.Context, settings) error
	platforms string // by default
}{
	"images": {makeImages, "linux/amd64,linux/arm64"},
	"cli":    {makeArchives, "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"},
}

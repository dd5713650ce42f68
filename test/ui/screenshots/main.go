// Screenshots takes pictures of pages of a web UI that runs: go run ./test/ui/screenshots [-dark] [-width N] URL CODE
// FOLDER PATH...
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bourse-dev/bourse/test/ui/browser"
)

func main() {
	dark := flag.Bool("dark", false, "in dark colours")
	width := flag.Int("width", 1440, "width of the page in pixels")
	flag.Parse()
	if err := take(*dark, *width, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func take(dark bool, width int, args []string) error {
	if len(args) < 4 {
		return fmt.Errorf("give URL CODE FOLDER PATH...")
	}
	t, end, err := browser.Start(context.Background(), width)
	if err != nil {
		return err
	}
	defer end()
	if err := t.Dark(dark); err != nil {
		return err
	}
	if err := t.Login(args[0], args[1]); err != nil {
		return err
	}
	for _, path := range args[3:] {
		if err := t.Go(path); err != nil {
			return err
		}
		time.Sleep(500 * time.Millisecond) // for what comes by the WebSocket
		name := strings.Trim(strings.NewReplacer("/", "-", "?", "-", "&", "-", "=", "-").Replace(path), "-")
		if name == "" {
			name = "home"
		}
		if err := t.Picture(filepath.Join(args[2], name+".png")); err != nil {
			return err
		}
		for _, fault := range t.Faults() {
			fmt.Println(path, fault)
		}
	}
	return nil
}

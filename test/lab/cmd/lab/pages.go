package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"github.com/bourse-dev/bourse/test/e2e/federation"
)

// servePages serves the web UI of each cluster to its admin until end is called. The links have one line each, with the
// code that lets a browser in.
func servePages(ctx context.Context, dir, kubeconfig string, f *federation.Federation) (links []string, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	end = func() {
		cancel()
		running.Wait()
	}
	for _, m := range f.Members {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, "bin", "bourse"), "--kubeconfig", kubeconfig, "--context", m.Name, "ui", "--no-open")
		out, err := cmd.StdoutPipe()
		if err != nil {
			return nil, end, err
		}
		var complaint strings.Builder
		cmd.Stderr = &complaint
		if err := cmd.Start(); err != nil {
			return nil, end, err
		}
		lines := bufio.NewScanner(out)
		var printed []string
		for len(printed) < 2 && lines.Scan() {
			printed = append(printed, lines.Text())
		}
		if len(printed) < 2 {
			return nil, end, fmt.Errorf("bourse ui of %s ended: %w: %s", m.Name, cmd.Wait(), complaint.String())
		}
		running.Go(func() {
			_, _ = io.Copy(io.Discard, out)
			_ = cmd.Wait()
		})
		code, _, _ := strings.Cut(printed[1], " (")
		links = append(links, fmt.Sprintf("  %-7s %s   %s", m.Name, printed[0], code))
	}
	return links, end, nil
}

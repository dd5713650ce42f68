package ui

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/bourse-dev/bourse/test/ui/browser"
)

// axe is version 4.14.1 of axe-core, as its authors released it.
//
//go:embed testdata/axe.min.js
var axe string

// TestAxe fails if the file is not the released one.
func TestAxe(t *testing.T) {
	if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(axe))); sum != "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c" {
		t.Errorf("testdata/axe.min.js is another file: its SHA-256 is %s", sum)
	}
}

// check runs axe on the page.
func check(b *browser.Tab) ([]string, error) {
	if err := b.Do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](axe+"; true"))
		return err
	})); err != nil {
		return nil, err
	}
	text, err := browser.Await[string](b, `axe.run({runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}).then(r =>
		r.violations.map(v => v.id + ": " + v.nodes.map(n => n.html).join(" | ").slice(0, 400)).join("\n"))`)
	if err != nil || text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), nil
}

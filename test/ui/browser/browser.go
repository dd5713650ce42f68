// Package browser drives Debian's Chromium through the web UI.
package browser

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// Find returns the browser of this machine; "" if there is none.
func Find() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Tab is a tab in a browser of its own, with its own cookies.
type Tab struct {
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// Start starts a browser that ends with the returned function. width is that of the page in pixels.
func Start(ctx context.Context, width int) (*Tab, func(), error) {
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(Find()), chromedp.WindowSize(width, 900),
		chromedp.WSURLReadTimeout(time.Minute), chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t, closeTab, err := open(ctx, width)
	if err != nil {
		end()
		return nil, nil, err
	}
	return t, func() { closeTab(); end() }, nil
}

// Another opens a second tab in the same browser, with its cookies. It ends with the returned function.
func (t *Tab) Another(width int) (*Tab, func(), error) { return open(t.ctx, width) }

// open opens a tab. ctx is that of a new browser, or of another tab of it.
func open(ctx context.Context, width int) (*Tab, func(), error) {
	ctx, cancel := chromedp.NewContext(ctx)
	t := &Tab{ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), 900)); err != nil {
		cancel()
		return nil, nil, err
	}
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			if m.Type == "error" || m.Type == "warning" || m.IsException() {
				t.mu.Lock()
				t.faults = append(t.faults, fmt.Sprint(m))
				t.mu.Unlock()
			}
		}
	}()
	return t, cancel, nil
}

// Faults returns what the browser complained about since the last call: errors of scripts, violations of the content
// security policy. A refused form answers 422, which is none.
func (t *Tab) Faults() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []string
	for _, fault := range t.faults {
		if !strings.Contains(fault, "status of 422") && !strings.Contains(fault, "status of 404") {
			out = append(out, fault)
		}
	}
	t.faults = nil
	return out
}

// Within bounds one step of a test.
func (t *Tab) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, 30*time.Second)
}

// Do carries out actions within 30 s.
func (t *Tab) Do(actions ...chromedp.Action[chromedp.Void]) error {
	ctx, cancel := t.within()
	defer cancel()
	return chromedp.Do(ctx, actions...)
}

// Open opens an address.
func (t *Tab) Open(url string) error { return t.Do(chromedp.Navigate(url)) }

// Login logs in with a code, and waits for the page behind it.
func (t *Tab) Login(url, code string) error {
	if err := t.Do(chromedp.Navigate(url), chromedp.SendKeys("#code", code+"\r")); err != nil {
		return err
	}
	return t.Wait(`!!document.querySelector("main h1") && location.pathname.startsWith("/s/")`)
}

// Wait waits until an expression is true. The error says what the page shows instead.
func (t *Tab) Wait(expression string) error {
	ctx, cancel := t.within()
	defer cancel()
	var last error
	for {
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && is {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			shown, err := Eval[string](t, "location.href + `: ` + document.body.innerText.slice(0, 500)")
			return fmt.Errorf("never: %s (%v)\nthe page is %s (%v)", expression, last, shown, err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Eval evaluates an expression.
func Eval[T any](t *Tab, expression string) (T, error) {
	ctx, cancel := t.within()
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// Go opens a page below the prefix of this login.
func (t *Tab) Go(path string) error {
	prefix, err := Eval[string](t, `location.origin + location.pathname.match(/^\/s\/[0-9a-f]+/)[0]`)
	if err != nil {
		return err
	}
	return t.Open(prefix + path)
}

// Reach presses Tab until the element has the focus for which the expression is true: e is the element.
func (t *Tab) Reach(expression string) error {
	for range 150 {
		if err := t.Do(chromedp.KeyEvent("\t")); err != nil {
			return err
		}
		is, err := Eval[bool](t, "((e) => "+expression+")(document.activeElement)")
		if err != nil || is {
			return err
		}
	}
	return fmt.Errorf("no Tab leads to %s", expression)
}

// Press reaches the element that shows a text, and presses Enter.
func (t *Tab) Press(text string) error {
	if err := t.Reach(fmt.Sprintf("e.innerText.trim() === %q", text)); err != nil {
		return err
	}
	return t.Do(chromedp.KeyEvent("\r"))
}

// Dark shows pages in dark colours, or not.
func (t *Tab) Dark(is bool) error {
	value := "light"
	if is {
		value = "dark"
	}
	ctx, cancel := t.within()
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
	return err
}

// Resize gives the page another width, in pixels.
func (t *Tab) Resize(width int) error { return t.Do(chromedp.EmulateViewport(int64(width), 900)) }

// Picture writes a picture of the whole page.
func (t *Tab) Picture(file string) error {
	ctx, cancel := t.within()
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}

// Await evaluates an expression that is a promise.
func Await[T any](t *Tab, expression string) (T, error) {
	ctx, cancel := t.within()
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
}

// Script lets the page run scripts, or not.
func (t *Tab) Script(runs bool) error {
	ctx, cancel := t.within()
	defer cancel()
	_, err := chromedp.Call(ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !runs})
	return err
}

// See waits until the page shows a text.
func (t *Tab) See(text string) error {
	return t.Wait(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

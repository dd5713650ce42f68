package ui

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// themes are those that a user may choose. Without one, the pages follow the browser.
var themes = []string{"", "light", "dark"}

// theme is the theme that the user chose. Each run has another origin, so no browser can keep it: a file does.
type theme struct {
	file string // empty: the choice ends with the process

	mu     sync.Mutex
	chosen string
}

// themeFile returns where the choice of this user is kept.
func themeFile() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "bourse", "theme")
}

// newTheme reads the choice of an earlier run. What is no theme is none.
func newTheme(file string) *theme {
	t := &theme{file: file}
	if text, err := os.ReadFile(file); err == nil && slices.Contains(themes, strings.TrimSpace(string(text))) {
		t.chosen = strings.TrimSpace(string(text))
	}
	return t
}

func (t *theme) now() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.chosen
}

// choose keeps a choice for later runs. Errors: those of the file.
func (t *theme) choose(name string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.chosen = name
	if t.file == "" {
		return nil
	}
	return cmp.Or(os.MkdirAll(filepath.Dir(t.file), 0o700), os.WriteFile(t.file, []byte(name+"\n"), 0o600))
}

// chooseTheme serves the form of the frame, and goes back to the page that it was on.
func (u *UI) chooseTheme(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostForm)
	name, to := r.PostFormValue("theme"), r.PostFormValue("to")
	if !slices.Contains(themes, name) {
		http.Error(w, "theme: choose light, dark, or none", http.StatusUnprocessableEntity)
		return
	}
	if err := u.theme.choose(name); err != nil {
		u.o.Log.Warn("the theme is not kept for later runs", "error", err)
	}
	http.Redirect(w, r, u.prefix+pathOf(to), http.StatusSeeOther)
}

package ui

// ThemeOf returns the theme of the pages.
func ThemeOf(u *UI) string { return u.theme.now() }

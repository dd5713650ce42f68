// Package static has the files of the web UI that are the same for everybody.
package static

import (
	"embed"
	"net/http"
)

//go:embed *.css *.js *.svg
var files embed.FS

// Serve writes a file, such as app.css.
func Serve(w http.ResponseWriter, r *http.Request, name string) {
	http.ServeFileFS(w, r, files, name)
}

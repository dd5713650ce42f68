// Command guest is what runs inside the machine of package lab.
//
// As "guest ADDRESS" it runs the shell scripts that it receives by POST, one after another or at once, and
// answers with their output. Status 500 is that of a script that failed.
//
// As "web" it is the program of pods: on port 8080 it answers each request with the name of its pod and the
// address from which the request came. As "get URL" it prints what such a program answers.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

func main() {
	var err error
	switch filepath.Base(os.Args[0]) {
	case "web":
		err = http.ListenAndServe(":8080", http.HandlerFunc(answer))
	case "get":
		err = get(os.Args[1])
	default:
		err = http.ListenAndServe(os.Args[1], http.HandlerFunc(run))
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func get(url string) error {
	c := http.Client{Timeout: 5 * time.Second}
	answer, err := c.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(os.Stdout, answer.Body)
	return err
}

func answer(w http.ResponseWriter, r *http.Request) {
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintf(w, "%s answers %s", os.Getenv("POD_NAME"), from)
}

func run(w http.ResponseWriter, r *http.Request) {
	cmd := exec.CommandContext(r.Context(), "/bin/sh", "-e")
	cmd.Stdin = r.Body
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		out = fmt.Appendf(out, "%v\n", err)
	}
	_, _ = w.Write(out)
}

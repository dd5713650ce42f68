// Command guest is what runs inside the machine of package lab.
//
// As "guest ADDRESS" it runs the shell scripts that it receives by POST, one after another or at once, and
// answers with their output. Status 500 is that of a script that failed.
//
// As "web [ADDRESS]" it is the program of pods: on port 8080 it answers each request with the name of its pod and
// the address from which the request came, and logs the answer; with ?bytes=N it answers with N bytes. As "get URL"
// it prints what such a program answers. As "measure URL" it prints the median time of a request on an open
// connection, in milliseconds, and the throughput of a large answer, in megabytes per second. As "pause" it waits
// for a signal.
package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

func main() {
	var err error
	switch filepath.Base(os.Args[0]) {
	case "pause":
		end := make(chan os.Signal, 1)
		signal.Notify(end, syscall.SIGINT, syscall.SIGTERM)
		<-end
	case "web":
		err = http.ListenAndServe(append(os.Args, ":8080")[1], http.HandlerFunc(answer))
	case "get":
		err = get(os.Args[1])
	case "measure":
		err = measure(os.Args[1])
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

func measure(url string) error {
	var times []time.Duration
	for range 301 {
		begin := time.Now()
		if err := read(url); err != nil {
			return err
		}
		times = append(times, time.Since(begin))
	}
	slices.Sort(times)
	const size = 12 << 20
	begin := time.Now()
	if err := read(fmt.Sprintf("%s?bytes=%d", url, size)); err != nil {
		return err
	}
	fmt.Printf("%.3f %.2f\n", times[len(times)/2].Seconds()*1e3, size/time.Since(begin).Seconds()/1e6)
	return nil
}

func read(url string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

func answer(w http.ResponseWriter, r *http.Request) {
	if size, err := strconv.ParseInt(r.URL.Query().Get("bytes"), 10, 64); err == nil {
		w.Header().Set("Content-Length", strconv.FormatInt(size, 10))
		for part := make([]byte, 1<<16); size > 0 && err == nil; size -= int64(len(part)) {
			_, err = w.Write(part[:min(size, int64(len(part)))])
		}
		return
	}
	from, _, _ := net.SplitHostPort(r.RemoteAddr)
	name := os.Getenv("POD_NAME")
	if name == "" {
		name, _ = os.Hostname()
	}
	fmt.Fprintf(w, "%s answers %s", name, from)
	fmt.Println("answered", from)
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

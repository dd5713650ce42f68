package robustness

import (
	"context"
	"fmt"
	"net/http/httptrace"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/test/robustness/strace"
)

// No answer that acknowledges something leaves the broker before the kernel has said that the
// journal is on the disk.
func TestAcknowledgedAfterFsync(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace")
	b := newProcess(t)
	b.wrapper = straced(t, trace)
	b.start()
	rome, milan := b.join("rome"), b.join("milan")
	if err := milan.Offer(t.Context(), cpu(100_000)); err != nil {
		t.Fatal(err)
	}
	var connections []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		connections = append(connections, info.Conn.LocalAddr().String())
	}})
	var durable []bool // which of rome's calls, in this order, acknowledge something
	call := func(acknowledges bool, r client.Reservation, err error) client.Reservation {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		durable = append(durable, acknowledges)
		return r
	}
	for i := range 5 {
		r, err := rome.Reserve(ctx, fmt.Sprint("key-", i), api.Request{Resources: cpu(1000)})
		r = call(true, r, err)
		again, err := rome.Reserve(ctx, fmt.Sprint("key-", i), api.Request{Resources: cpu(1000)})
		call(false, again, err)
		r, err = rome.Confirm(ctx, r.ID, rome.Assign(r))
		r = call(true, r, err)
		read, err := rome.Reservation(ctx, r.ID)
		call(false, read, err)
		released, err := rome.Release(ctx, r.ID, rome.End(r, api.ReasonReleased))
		call(true, released, err)
	}
	b.stop()
	if one := slices.Compact(connections); len(one) != 1 {
		t.Fatalf("the calls came over %d connections: %v", len(one), one)
	}
	answers := answersIn(t, trace, connections[0])
	if len(answers) < len(durable) {
		t.Fatalf("%d answers are in the trace, %d calls were made", len(answers), len(durable))
	}
	for i, a := range answers[len(answers)-len(durable):] { // before them rome showed its card
		if a.synced != durable[i] {
			t.Errorf("answer %d: the journal was written and synced before it: %v, want %v", i, a.synced, durable[i])
		}
	}
}

// straced is what to put before a command to get its system calls into a file.
func straced(t *testing.T, file string) []string {
	t.Helper()
	// -D leaves the command our own child, to be signalled and waited for.
	wrapper := []string{"strace", "-D", "-f", "-yy", "-s", "0",
		"-e", "trace=read,write,pwrite64,fsync,fdatasync", "-o", file}
	if out, err := exec.CommandContext(context.Background(), wrapper[0],
		append(wrapper[1:], "true")...).CombinedOutput(); err != nil {
		t.Skipf("strace does not run here (%v): install it, as .ci/run does, and let it trace\n%s", err, out)
	}
	return wrapper
}

// answer is what happened on one connection from the first byte of a request to the first of its answer.
type answer struct {
	from, to int
	synced   bool // the WAL was written and synced in between
}

func answersIn(t *testing.T, trace, remote string) []answer {
	t.Helper()
	file, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	calls, err := strace.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []answer
	answered := true
	for _, c := range calls {
		switch {
		case c.Name == "SIGTERM": // what follows is the end of the connection
			return out
		case !strings.HasSuffix(c.File, "->"+remote+"]") || c.Result <= 0:
		case c.Name == "read" && answered:
			out, answered = append(out, answer{from: c.End}), false
		case c.Name == "write" && !answered:
			last := &out[len(out)-1]
			last.to, answered = c.Begin, true
			last.synced = syncedWithin(calls, last.from, last.to)
		}
	}
	return out
}

// syncedWithin says whether the WAL was written, and after that synced, between two lines of a trace.
func syncedWithin(calls []strace.Call, from, to int) bool {
	written := 0
	for _, c := range calls {
		if !strings.HasSuffix(c.File, "/market.db-wal") || c.Begin < from || c.End > to {
			continue
		}
		switch {
		case c.Name == "pwrite64" || c.Name == "write":
			written = c.End
		case c.Result == 0 && written > 0 && c.Begin > written:
			return true
		}
	}
	return false
}

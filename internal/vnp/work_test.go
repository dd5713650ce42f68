package vnp

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Pods that growth did not help do not count, however many there are. TestWorkOfMarkedPods counts what that takes.
func TestPlansWithMarkedPods(t *testing.T) {
	for _, n := range []int{fewMarked, 8 * fewMarked} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			o := seen(nil, ready("milan", int64(2*n)), ready("oslo", 1))
			for i := range n {
				o.Pods = append(o.Pods, pending(fmt.Sprint("p-", i), 1))
			}
			p := planner(t, spec(100_000))
			p.Plan(o)
			o.Now = noon.Add(2 * time.Minute)
			for range 3 { // the first marks them
				plan := p.Plan(o)
				if len(plan.Not) != 1 || plan.Not[0].Reason != DidNotHelp || plan.Not[0].Count != int32(n) {
					t.Fatalf("of %d pods do not count: %+v", n, plan.Not)
				}
			}
		})
	}
}

const fewMarked = 100

// A plan with many pods that growth did not help takes work in proportion to their number.
func TestWorkOfMarkedPods(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles this package with counters")
	}
	binary := filepath.Join(t.TempDir(), "counted.test")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-covermode=count", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	few, many := statements(t, binary, fewMarked), statements(t, binary, 8*fewMarked)
	t.Logf("%d statements for %d pods, %d for %d", few, fewMarked, many, 8*fewMarked)
	if many > 12*few { // pods are sorted
		t.Errorf("8 times as many pods take %.1f times as many statements", float64(many)/float64(few))
	}
}

// statements counts those of this package that run for a number of marked pods.
func statements(t *testing.T, binary string, pods int) (sum int64) {
	t.Helper()
	profile := filepath.Join(t.TempDir(), "profile")
	one := fmt.Sprintf("-test.run=^TestPlansWithMarkedPods$/^%d$", pods)
	if out, err := exec.CommandContext(t.Context(), binary, one, "-test.coverprofile="+profile).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	file, err := os.Open(profile)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := strings.Fields(lines.Text()) // FILE:FROM,TO STATEMENTS RUNS
		if len(fields) != 3 {
			continue // the mode
		}
		length, err := strconv.ParseInt(fields[1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		runs, err := strconv.ParseInt(fields[2], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += length * runs
	}
	return sum
}

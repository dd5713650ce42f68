package lab

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// outcome is a test that records how it is ended.
type outcome struct {
	testing.TB
	how string
}

func (o *outcome) Skip(why ...any)  { o.end("skipped", why) }
func (o *outcome) Fatal(why ...any) { o.end("failed", why) }

func (o *outcome) end(how string, why []any) {
	o.how = how + ": " + fmt.Sprint(why...)
	panic(o)
}

// Where the packages of a machine cannot be had, tests are skipped with the reason. With CI=true they fail.
func TestNoPackages(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("BOURSE_CACHE", t.TempDir())
	for ci, want := range map[string]string{"": "skipped", "false": "skipped", "true": "failed"} {
		t.Setenv("CI", ci)
		o := &outcome{TB: t}
		func() {
			defer func() {
				if ended := recover(); ended != o {
					t.Errorf("with CI=%s it ends by %v", ci, ended)
				}
			}()
			MachineFor(o, &Lab{progress: io.Discard})
		}()
		if !strings.HasPrefix(o.how, want+": no Debian packages for the machine: apt-get: ") {
			t.Errorf("with CI=%s it is %s, want %s", ci, o.how, want)
		}
	}
}

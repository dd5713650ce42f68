package pages

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/explain"
)

// extent is how large a reservation is, and when it ends.
type extent struct {
	Units     int64         // of its plan; 0: Resources say the size
	Resources api.Resources // nil for a purchase
	Ends      time.Time
}

// asksFor returns what a bound request asks for.
func (a Asked) asksFor() extent {
	r, s := a.Request.Payload.Request, a.Request.Payload.Status
	e := extent{Resources: r.Resources, Ends: at(s.Began).Add(api.DurationOf(r.Duration))}
	if p := r.Purchase; p != nil {
		e.Units, e.Resources = cmp.Or(p.Units, s.Units), nil
	}
	return e
}

// inForce returns what a bound request has.
func (a Asked) inForce() extent {
	s := a.Request.Payload.Status
	e := extent{Resources: s.Resources, Ends: at(s.Until)}
	if a.Request.Payload.Request.Purchase != nil {
		e.Units, e.Resources = s.Units, nil
	}
	return e
}

// sameSize reports whether two extents have one size.
func (e extent) sameSize(other extent) bool {
	return e.Units == other.Units && !slices.ContainsFunc(names(e.Resources, other.Resources), func(name ResourceName) bool {
		q := e.Resources[name]
		return q.Cmp(other.Resources[name]) != 0
	})
}

// sameEnd reports whether two extents end at one time. Times are in whole seconds.
func (e extent) sameEnd(other extent) bool { return e.Ends.Sub(other.Ends).Abs() < 2*time.Second }

// String says an extent in words.
func (e extent) String() string {
	size := Amounts(e.Resources)
	if e.Units > 0 {
		size = explain.Count(int(e.Units), "unit")
	}
	return size + ", until " + Full(e.Ends)
}

// change is what a bound request asks for and does not have.
type change struct {
	Refused bool   // the agent asks again every minute, until the user withdraws it
	Message string // how it stands, or why it is refused
}

// changeAsked returns the change that a request asks for. Nil: it asks for none. A refusal of what it asked for before is
// none of this change.
func changeAsked(r client.RequestStatus) *change {
	s := r.Payload.Status
	a := Asked{Request: r}
	if s.Began == nil || a.asksFor().sameSize(a.inForce()) && a.asksFor().sameEnd(a.inForce()) {
		return nil
	}
	c := meta.FindStatusCondition(s.Conditions, api.ConditionUpToDate)
	switch {
	case c != nil && c.ObservedGeneration < int64(r.Revision):
		return &change{Message: "the agent has not asked for it yet"}
	case c == nil || c.Status != metav1.ConditionFalse:
		return nil
	}
	return &change{c.Reason != api.Changing, c.Message}
}

// withdrawal returns the commands by which the request asks for what is in force.
func (a Asked) withdrawal() (lines []string) {
	asked, has := a.asksFor(), a.inForce()
	spec := map[string]any{}
	if !asked.sameSize(has) {
		lines = append(lines, a.command("resize", has.flags(asked)...))
		maps.Copy(spec, has.size(asked))
	}
	if !asked.sameEnd(has) {
		lines = append(lines, a.command("extend", "--until", has.Ends.UTC().Format(time.RFC3339)))
		maps.Copy(spec, a.until(has.Ends))
	}
	return append(lines, a.patch(spec))
}

// command returns the command of a terminal that does something with the request.
func (a Asked) command(verb string, args ...string) string {
	return Quote(append([]string{"bourse", "-n", a.Namespace, verb, a.Name}, args...)...)
}

// kubectl returns the command of kubectl that does something with the object of the request.
func (a Asked) kubectl(verb string, args ...string) string {
	return Quote(append([]string{"kubectl", "-n", a.Namespace, verb, "resourcerequest", a.Name}, args...)...)
}

// patch returns the command of kubectl that writes some fields of the request's spec; nil removes one.
func (a Asked) patch(spec map[string]any) string {
	return patchCommand(a.Namespace, "resourcerequest", a.Name, spec)
}

// patchCommand returns the command of kubectl that writes some fields of an object's spec; nil removes one. namespace is
// empty for an object of the cluster.
func patchCommand(namespace, kind, name string, spec map[string]any) string {
	text, _ := json.Marshal(map[string]any{"spec": spec}) // amounts, names and numbers have no text that fails
	line := []string{"kubectl"}
	if namespace != "" {
		line = append(line, "-n", namespace)
	}
	return Quote(append(line, "patch", kind, name, "--type", "merge", "-p", string(text))...)
}

// flags returns how a command names the size, in place of another one.
func (e extent) flags(before extent) (args []string) {
	if e.Units > 0 {
		return []string{"--units", strconv.FormatInt(e.Units, 10)}
	}
	for _, name := range names(e.Resources, before.Resources) {
		q := e.Resources[name]
		switch name {
		case "cpu", "memory":
			args = append(args, "--"+string(name), q.String())
		default:
			args = append(args, "--resource", string(name)+"="+q.String())
		}
	}
	return args
}

// size returns the fields of a spec that ask for the size, in place of another one.
func (e extent) size(before extent) map[string]any {
	if e.Units > 0 {
		return map[string]any{"purchase": map[string]int64{"units": e.Units}}
	}
	amounts := map[ResourceName]any{}
	for _, name := range names(before.Resources, e.Resources) {
		amounts[name] = nil
		if q, stays := e.Resources[name]; stays {
			amounts[name] = q
		}
	}
	return map[string]any{"resources": amounts}
}

// until returns the field of a spec that asks for an end.
func (a Asked) until(end time.Time) map[string]any {
	last := end.Sub(at(a.Request.Payload.Status.Began)).Round(time.Second)
	return map[string]any{"duration": metav1.Duration{Duration: last}}
}

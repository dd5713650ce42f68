package market

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/bourse-dev/bourse/api"
)

// encoder writes a reservation as json.Encoder would, byte for byte (a test compares them, field by
// field), but without reflection: that was most of the cost of a hold.
type encoder struct {
	// to, if set, takes what is written so far, whenever that is much.
	to  io.Writer
	b   []byte
	err error
	// html escapes <, > and &, as json.Marshal does. A journal does not: it would make six bytes of one that a member sends.
	html bool
}

func (w *encoder) event(e Event) {
	w.b = append(w.b, '{')
	w.number("time", int64(e.Time))
	w.key("reservation")
	w.open('{')
	w.reservation(e.Reservation)
	w.shut("}}")
}

func (w *encoder) snapshot(s snapshot) {
	w.open('{')
	w.unsigned("revision", s.Revision)
	w.number("time", int64(s.Time))
	if len(s.Members) > 0 {
		w.value("members", s.Members)
	}
	if len(s.Tokens) > 0 {
		w.value("tokens", s.Tokens)
	}
	if len(s.Offers) > 0 {
		w.value("offers", s.Offers)
	}
	if len(s.Spent) > 0 {
		w.value("spent", s.Spent)
	}
	if len(s.Passed) > 0 {
		w.value("passed", s.Passed)
	}
	if len(s.Reservations) > 0 {
		w.key("reservations")
		w.open('[')
		for _, k := range s.Reservations {
			w.open('{')
			w.reservation(&k.ReservationEvent)
			w.unsigned("revision", k.Revision)
			w.shut("}")
			w.flush(writeSize)
		}
		w.shut("]")
	}
	w.numberIfAny("awake", int64(s.Awake))
	if len(s.Presences) > 0 {
		w.value("presences", s.Presences)
	}
	if len(s.Records) > 0 {
		w.value("records", s.Records)
	}
	if s.Operators != nil {
		w.value("operators", s.Operators)
	}
	w.shut("}")
}

// writeSize is about how many bytes of a snapshot are written at a time.
const writeSize = 256 << 10

// flush writes what there is, if it is more than so many bytes, but for the last byte, which says what may follow it.
func (w *encoder) flush(beyond int) {
	n := len(w.b) - 1
	if w.to == nil || n < beyond {
		return
	}
	if beyond == 0 {
		n++
	}
	_, err := w.to.Write(w.b[:n])
	w.err = cmp.Or(w.err, err)
	w.b = append(w.b[:0], w.b[n:]...)
}

func (w *encoder) reservation(r *ReservationEvent) {
	if r.prepared != nil {
		w.raw(r.prepared.asked)
	} else {
		w.asked(r.Reservation)
	}
	w.text("state", string(r.State))
	w.textIfAny("reason", string(r.Reason))
	w.textIfAny("message", r.Message)
	w.textIfAny("provider", r.Provider)
	w.number("generation", r.Generation)
	w.number("created", int64(r.Created))
	w.number("changed", int64(r.Changed))
	w.numberIfAny("heldUntil", int64(r.HeldUntil))
	w.numberIfAny("approveBy", int64(r.ApproveBy))
	w.numberIfAny("deadline", int64(r.Deadline))
	w.numberIfAny("until", int64(r.Until))
	w.numberIfAny("longest", int64(r.Longest))
	w.numberIfAny("acceptBy", int64(r.AcceptBy))
	w.numberIfAny("waitUntil", int64(r.WaitUntil))
	w.numberIfAny("waitedSince", int64(r.WaitedSince))
	w.numberIfAny("ended", int64(r.Ended))
	w.numberIfAny("rememberUntil", int64(r.RememberUntil))
	w.numberIfAny("from", int64(r.From))
	if len(r.Past) > 0 {
		w.value("past", r.Past)
	}
	if len(r.Next) > 0 {
		w.texts("next", r.Next)
	}
	if len(r.Plans) > 0 {
		w.value("plans", r.Plans)
	}
	if len(r.Tried) > 0 {
		w.value("tried", r.Tried)
	}
	w.textIfAny("assignment", r.Assignment)
	w.textIfAny("acceptance", r.Acceptance)
	w.textIfAny("end", r.End)
	w.textIfAny("reclaim", r.Reclaim)
	w.numberIfAny("reclaimAt", int64(r.ReclaimAt))
	if r.Change != nil {
		w.value("change", r.Change)
	}
	if r.Shrunk != nil {
		w.value("shrunk", r.Shrunk)
	}
	w.numberIfAny("adopted", int64(r.Adopted))
	if r.Promise != nil {
		w.value("promise", r.Promise)
	}
	w.textIfAny("via", r.Via)
	if r.Object != nil {
		w.value("object", r.Object)
	}
	if r.Fence != (api.Fence{}) {
		w.value("fence", r.Fence)
	}
	if r.Why != nil {
		w.key("decision")
		w.b = append(w.b, r.Why...)
	}
}

// asked is what the consumer said; it does not change.
func (w *encoder) asked(r *Reservation) {
	w.text("id", r.ID)
	w.text("consumer", r.Consumer)
	w.text("pool", r.Pool)
	w.size(r.Size)
	w.textIfAny("key", r.Key)
	w.textIfAny("digest", r.Digest)
	if r.Sale != nil {
		w.value("sale", r.Sale)
	}
	if len(r.Group) > 0 {
		w.texts("group", r.Group)
	}
	if r.Request != nil {
		w.request(r.Request)
	}
}

func (w *encoder) request(r *api.Request) {
	w.key("request")
	w.open('{')
	if len(r.Resources) > 0 {
		w.key("resources")
		w.resources(r.Resources)
	}
	if r.Purchase != nil {
		w.value("purchase", r.Purchase)
	}
	if r.Duration != nil {
		w.text("duration", r.Duration.Duration.String())
	}
	w.textIfAny("pool", r.Pool)
	w.textIfAny("where", r.Where)
	if len(r.Properties) > 0 {
		w.value("properties", r.Properties)
	}
	w.textIfAny("target", r.Target)
	if len(r.Exclude) > 0 {
		w.texts("exclude", r.Exclude)
	}
	if len(r.Prefer) > 0 {
		w.texts("prefer", r.Prefer)
	}
	w.textIfAny("strategy", string(r.Strategy))
	if r.Confirm {
		w.value("confirm", true)
	}
	w.textIfAny("network", string(r.Network))
	if len(r.PodShape) > 0 {
		w.key("podShape")
		w.resources(r.PodShape)
	}
	if r.Wait != nil {
		w.text("wait", r.Wait.Duration.String())
	}
	w.numberIfAny("priority", int64(r.Priority))
	w.numberIfAny("split", int64(r.Split))
	if len(r.StickTo) > 0 {
		w.texts("stickTo", r.StickTo)
	}
	if r.MaxPrice != nil {
		w.value("maxPrice", r.MaxPrice)
	}
	w.shut("}")
}

func (w *encoder) resources(all api.Resources) {
	names := make([]corev1.ResourceName, 0, 8)
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	w.open('{')
	for _, name := range names {
		amount := all[name]
		w.next()
		w.quote(string(name))
		w.b = append(w.b, ':')
		w.quote(amount.String())
	}
	w.shut("}")
}

func (w *encoder) size(size Amounts) {
	w.key("size")
	if size == nil {
		w.b = append(w.b, "null"...)
		return
	}
	w.open('[')
	for _, a := range size {
		w.open('{')
		w.text("r", a.Resource)
		w.number("v", a.Value)
		w.shut("}")
	}
	w.shut("]")
}

// explanation begins a decision: what is known before the choice, which ends it.
func (w *encoder) explanation(d *api.Decision) {
	w.open('{')
	w.number("considered", int64(d.Considered))
	w.numberIfAny("hidden", int64(d.Hidden))
	if len(d.Eliminated) > 0 {
		w.key("eliminated")
		w.open('[')
		for _, e := range d.Eliminated {
			w.open('{')
			w.text("filter", e.Filter)
			w.text("reason", e.Reason)
			w.number("count", int64(e.Count))
			w.shut("}")
		}
		w.shut("]")
	}
	w.number("candidates", int64(d.Candidates))
	if len(d.Top) > 0 {
		w.top(d.Top)
	}
	if d.NearestMiss != nil {
		w.value("nearestMiss", d.NearestMiss)
	}
	w.numberIfAny("parts", int64(d.Parts))
}

func (w *encoder) choice(d *api.Decision) {
	w.textIfAny("chosen", d.Chosen)
	if d.Sequence != (api.Sequence{}) {
		w.key("sequence")
		w.open('{')
		w.number("incarnation", d.Sequence.Incarnation)
		w.number("number", d.Sequence.Number)
		w.shut("}")
	}
	w.shut("}")
}

func (w *encoder) top(top []api.Scored) {
	w.key("top")
	w.open('[')
	for _, s := range top {
		w.open('{')
		w.text("cluster", s.Cluster)
		w.number("score", s.Score)
		if len(s.Scores) > 0 {
			w.key("scores")
			w.open('[')
			for _, by := range s.Scores {
				w.open('{')
				w.text("scorer", by.Scorer)
				w.number("value", by.Value)
				w.shut("}")
			}
			w.shut("]")
		}
		if s.Bought != nil {
			w.value("bought", s.Bought)
		}
		w.shut("}")
	}
	w.shut("]")
}

// open begins an object or an array, which may be the next one of an array.
func (w *encoder) open(bracket byte) {
	w.next()
	w.b = append(w.b, bracket)
}

func (w *encoder) shut(brackets string) { w.b = append(w.b, brackets...) }

// next separates what follows from what stands before it.
func (w *encoder) next() {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' && w.b[n-1] != '[' && w.b[n-1] != ':' {
		w.b = append(w.b, ',')
	}
}

func (w *encoder) key(name string) {
	if n := len(w.b); n > 0 && w.b[n-1] != '{' { // a key never stands elsewhere
		w.b = append(w.b, ',', '"')
	} else {
		w.b = append(w.b, '"')
	}
	w.b = append(w.b, name...)
	w.b = append(w.b, '"', ':')
}

func (w *encoder) number(name string, v int64) {
	w.key(name)
	w.b = strconv.AppendInt(w.b, v, 10)
}

func (w *encoder) unsigned(name string, v uint64) {
	w.key(name)
	w.b = strconv.AppendUint(w.b, v, 10)
}

func (w *encoder) numberIfAny(name string, v int64) {
	if v != 0 {
		w.number(name, v)
	}
}

func (w *encoder) text(name, v string) {
	w.key(name)
	w.quote(v)
}

func (w *encoder) textIfAny(name, v string) {
	if v != "" {
		w.text(name, v)
	}
}

func (w *encoder) texts(name string, all []string) {
	w.key(name)
	w.open('[')
	for _, v := range all {
		w.next()
		w.quote(v)
	}
	w.shut("]")
}

// raw writes what was encoded before.
func (w *encoder) raw(b []byte) {
	w.next()
	w.b = append(w.b, b...)
}

// value is for what is small or rare.
func (w *encoder) value(name string, v any) {
	w.key(name)
	w.marshal(v)
}

func (w *encoder) marshal(v any) {
	if w.html {
		data, err := json.Marshal(v)
		w.b, w.err = append(w.b, data...), cmp.Or(w.err, err)
		return
	}
	into := bytes.NewBuffer(w.b)
	spell := json.NewEncoder(into)
	spell.SetEscapeHTML(false)
	err := spell.Encode(v)
	w.b, w.err = bytes.TrimSuffix(into.Bytes(), []byte("\n")), cmp.Or(w.err, err)
}

// quote writes a string.
func (w *encoder) quote(s string) {
	for i := range len(s) {
		if !plain[s[i]] {
			w.escape(s)
			return
		}
	}
	w.b = append(w.b, '"')
	w.b = append(w.b, s...)
	w.b = append(w.b, '"')
}

// escape writes a string that is not plain, as most CEL is not. What is not printable ASCII is left to encoding/json.
func (w *encoder) escape(s string) {
	b := append(w.b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case plain[c]:
			b = append(b, c)
		case c == '"', c == '\\':
			b = append(b, '\\', c)
		case (c == '<' || c == '>' || c == '&') && !w.html:
			b = append(b, c)
		case c == '<', c == '>', c == '&':
			b = append(b, `\u00`...)
			b = append(b, hex[c>>4], hex[c&15])
		default:
			w.marshal(s)
			return
		}
	}
	w.b = append(b, '"')
}

const hex = "0123456789abcdef"

// plain are the characters that stand for themselves.
var plain = func() (is [256]bool) {
	for c := ' '; c <= '~'; c++ {
		is[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return is
}()

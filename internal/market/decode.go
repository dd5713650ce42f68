package market

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// decoder reads what encoder writes, field by field in the same order, as [strictly] would, but without reflection: that was most
// of a broker's start. Whatever else it meets, such as a field that is new, is odd: then strictly reads it, and says what is wrong.
type decoder struct {
	b   []byte
	at  int
	odd bool
	// known are the short texts of which there are few, so that they are kept once; it may be nil.
	known map[string]string
}

// decodeReservationEvent reads an event about a reservation.
func decodeReservationEvent(data []byte) (Event, bool) {
	d := &decoder{b: data}
	e := Event{}
	d.take('{')
	d.number("time", &e.Time)
	if d.odd || !d.has("reservation") {
		return Event{}, false
	}
	d.take('{')
	e.Reservation = d.reservation()
	d.take('}')
	d.take('}')
	return e, d.done()
}

// Each does something for each number below n, in any order or at once: the market starts no goroutines itself.
type Each func(n int, do func(i int))

// inTurn is the plain one.
func inTurn(n int, do func(int)) {
	for i := range n {
		do(i)
	}
}

// decodeSnapshot reads a snapshot, its reservations in pieces.
func decodeSnapshot(data []byte, each Each) (s snapshot, ok bool) {
	d := &decoder{b: data}
	d.take('{')
	d.unsigned("revision", &s.Revision)
	d.number("time", &s.Time)
	d.value("members", &s.Members)
	d.value("tokens", &s.Tokens)
	d.value("offers", &s.Offers)
	d.value("spent", &s.Spent)
	if d.has("reservations") {
		pieces := d.pieces()
		read := make([][]kept, len(pieces))
		odd := make([]bool, len(pieces))
		each(len(pieces), func(i int) { read[i], odd[i] = decodeKept(pieces[i]) })
		d.odd = d.odd || slices.Contains(odd, true)
		s.Reservations = slices.Concat(read...)
	}
	d.number("awake", &s.Awake)
	d.value("presences", &s.Presences)
	d.take('}')
	return s, d.done()
}

// pieces cuts a list of records into pieces to be read one by one.
func (d *decoder) pieces() (out [][]byte) {
	d.take('[')
	for begin := d.at; d.peek() != ']' && !d.odd; {
		d.skip()
		if d.peek() == ',' && d.at-begin < pieceSize {
			d.at++
			continue
		}
		out = append(out, d.b[begin:d.at])
		if d.peek() == ',' {
			d.at++
			begin = d.at
		}
	}
	d.take(']')
	return out
}

const pieceSize = 1 << 20

func decodeKept(piece []byte) (out []kept, odd bool) {
	d := &decoder{b: piece, known: map[string]string{}}
	for d.at < len(d.b) && !d.odd {
		if len(out) > 0 {
			d.take(',')
		}
		var k kept
		d.take('{')
		k.ReservationEvent = *d.reservation()
		d.unsigned("revision", &k.Revision)
		d.take('}')
		out = append(out, k)
	}
	return out, d.odd
}

// reservation reads the fields of one, after its bracket. Without an ID it is none.
func (d *decoder) reservation() *ReservationEvent {
	r := &Reservation{}
	e := &ReservationEvent{Reservation: r}
	if !d.has("id") {
		d.odd = true
		return e
	}
	r.ID = d.quoted()
	d.name("consumer", &r.Consumer)
	d.name("pool", &r.Pool)
	d.size(&r.Size)
	d.text("key", &r.Key)
	d.text("digest", &r.Digest)
	d.value("sale", &r.Sale)
	d.names("group", &r.Group)
	if d.has("request") {
		r.Request = d.request()
	}
	d.name("state", (*string)(&r.State))
	d.name("reason", (*string)(&r.Reason))
	d.text("message", &r.Message)
	d.name("provider", &r.Provider)
	d.integer("generation", &r.Generation)
	d.number("created", &r.Created)
	d.number("changed", &r.Changed)
	d.number("heldUntil", &r.HeldUntil)
	d.number("approveBy", &r.ApproveBy)
	d.number("deadline", &r.Deadline)
	d.number("until", &r.Until)
	d.number("waitUntil", &r.WaitUntil)
	d.number("waitedSince", &r.WaitedSince)
	d.number("ended", &r.Ended)
	d.number("from", &r.From)
	d.value("past", &r.Past)
	d.names("next", &r.Next)
	d.value("tried", &r.Tried)
	d.text("assignment", &r.Assignment)
	d.text("acceptance", &r.Acceptance)
	d.text("end", &r.End)
	d.text("reclaim", &r.Reclaim)
	d.number("reclaimAt", &r.ReclaimAt)
	d.value("change", &r.Change)
	d.value("shrunk", &r.Shrunk)
	d.name("via", &r.Via)
	d.value("object", &r.Object)
	d.value("fence", &r.Fence)
	if d.has("decision") {
		e.Decision = d.decision()
	}
	return e
}

func (d *decoder) size(into *Amounts) {
	if !d.has("size") {
		return
	}
	if bytes.HasPrefix(d.b[d.at:], []byte("null")) {
		d.at += len("null")
		return
	}
	*into = make(Amounts, 0, 2)
	d.list(func() {
		var a Amount
		d.take('{')
		d.name("r", &a.Resource)
		d.integer("v", &a.Value)
		d.take('}')
		*into = append(*into, a)
	})
}

func (d *decoder) request() *api.Request {
	r := &api.Request{}
	d.take('{')
	d.resources("resources", &r.Resources)
	d.value("purchase", &r.Purchase)
	d.duration("duration", &r.Duration)
	d.name("pool", &r.Pool)
	d.name("where", &r.Where)
	d.value("properties", &r.Properties)
	d.name("target", &r.Target)
	d.names("exclude", &r.Exclude)
	d.names("prefer", &r.Prefer)
	d.name("strategy", (*string)(&r.Strategy))
	d.value("confirm", &r.Confirm)
	d.name("network", (*string)(&r.Network))
	d.resources("podShape", &r.PodShape)
	d.duration("wait", &r.Wait)
	r.Priority, r.Split = d.small("priority"), d.small("split")
	d.take('}')
	return r
}

func (d *decoder) duration(field string, into **metav1.Duration) {
	if d.has(field) {
		length, err := time.ParseDuration(d.quoted())
		d.odd = d.odd || err != nil
		*into = &metav1.Duration{Duration: length}
	}
}

func (d *decoder) resources(field string, into *api.Resources) {
	if !d.has(field) {
		return
	}
	all := api.Resources{}
	d.take('{')
	for d.peek() != '}' && !d.odd {
		if len(all) > 0 {
			d.take(',')
		}
		name := corev1.ResourceName(d.quotedName())
		d.take(':')
		amount, err := resource.ParseQuantity(d.quotedPlain())
		d.odd = d.odd || err != nil
		if _, twice := all[name]; twice {
			d.odd = true
		}
		all[name] = amount
	}
	d.take('}')
	*into = all
}

func (d *decoder) decision() *api.Decision {
	out := &api.Decision{}
	d.take('{')
	d.int("considered", &out.Considered)
	d.int("hidden", &out.Hidden)
	if d.has("eliminated") {
		out.Eliminated = []api.Elimination{}
		d.list(func() {
			var e api.Elimination
			d.take('{')
			d.name("filter", &e.Filter)
			d.name("reason", &e.Reason)
			d.int("count", &e.Count)
			d.take('}')
			out.Eliminated = append(out.Eliminated, e)
		})
	}
	d.int("candidates", &out.Candidates)
	if d.has("top") {
		out.Top = make([]api.Scored, 0, 5)
		d.list(func() { out.Top = append(out.Top, d.scored()) })
	}
	d.value("nearestMiss", &out.NearestMiss)
	d.int("parts", &out.Parts)
	d.name("chosen", &out.Chosen)
	if d.has("sequence") {
		d.take('{')
		d.integer("incarnation", &out.Sequence.Incarnation)
		d.integer("number", &out.Sequence.Number)
		d.take('}')
	}
	d.take('}')
	return out
}

func (d *decoder) scored() (s api.Scored) {
	d.take('{')
	d.name("cluster", &s.Cluster)
	d.integer("score", &s.Score)
	if d.has("scores") {
		s.Scores = make([]api.Score, 0, 2)
		d.list(func() {
			var by api.Score
			d.take('{')
			d.name("scorer", &by.Scorer)
			d.integer("value", &by.Value)
			d.take('}')
			s.Scores = append(s.Scores, by)
		})
	}
	d.take('}')
	return s
}

// done says whether all of it was read, and nothing of it was odd.
func (d *decoder) done() bool { return !d.odd && d.at == len(d.b) }

func (d *decoder) peek() byte {
	if d.at < len(d.b) {
		return d.b[d.at]
	}
	return 0
}

func (d *decoder) take(c byte) {
	if d.peek() != c {
		d.odd = true
		return
	}
	d.at++
}

// has says whether a field is the next one, and moves to its value. After its bracket an object's first has no comma before it.
func (d *decoder) has(field string) bool {
	if d.odd {
		return false
	}
	at := d.at
	if d.b[at-1] != '{' {
		if d.peek() != ',' {
			return false
		}
		at++
	}
	end := at + len(field) + 3
	if end > len(d.b) || d.b[at] != '"' || string(d.b[at+1:end-2]) != field || d.b[end-2] != '"' || d.b[end-1] != ':' {
		return false
	}
	d.at = end
	return true
}

func (d *decoder) list(element func()) {
	d.take('[')
	for n := 0; d.peek() != ']' && !d.odd; n++ {
		if n > 0 {
			d.take(',')
		}
		element()
	}
	d.take(']')
}

func (d *decoder) text(field string, into *string) {
	if d.has(field) {
		*into = d.quoted()
	}
}

// name is a text of which there are few.
func (d *decoder) name(field string, into *string) {
	if d.has(field) {
		*into = d.quotedName()
	}
}

func (d *decoder) names(field string, into *[]string) {
	if d.has(field) {
		*into = []string{}
		d.list(func() { *into = append(*into, d.quotedName()) })
	}
}

func (d *decoder) quoted() string { return d.unquote(d.quotes()) }

func (d *decoder) quotedPlain() string {
	text := d.quotes()
	d.odd = d.odd || !isPlain(text)
	return string(text)
}

func (d *decoder) quotedName() string {
	text := d.quotes()
	if known, is := d.known[string(text)]; is {
		return known
	}
	name := d.unquote(text)
	if d.known != nil && !d.odd {
		d.known[string(text)] = name
	}
	return name
}

// quotes is what stands between quotes.
func (d *decoder) quotes() []byte {
	if d.peek() != '"' {
		d.odd = true
		return nil
	}
	begin := d.at + 1
	if d.skipText(); d.odd {
		return nil
	}
	return d.b[begin : d.at-1]
}

func (d *decoder) unquote(text []byte) (out string) {
	if isPlain(text) || d.odd {
		return string(text)
	}
	quoted := append(append(append(make([]byte, 0, len(text)+2), '"'), text...), '"')
	d.odd = json.Unmarshal(quoted, &out) != nil
	return out
}

func isPlain(text []byte) bool {
	for _, c := range text {
		if !plain[c] {
			return false
		}
	}
	return true
}

func (d *decoder) number(field string, into *Time) { d.integer(field, (*int64)(into)) }

func (d *decoder) int(field string, into *int) {
	if d.has(field) {
		*into = int(d.digits())
	}
}

// small is a field that holds 32 bits; 0 if it is not there.
func (d *decoder) small(field string) (v int32) {
	if d.has(field) {
		wide := d.digits()
		v = int32(wide)
		d.odd = d.odd || int64(v) != wide
	}
	return v
}

func (d *decoder) unsigned(field string, into *uint64) {
	if d.has(field) {
		v := d.digits()
		d.odd = d.odd || v < 0
		*into = uint64(v)
	}
}

func (d *decoder) integer(field string, into *int64) {
	if d.has(field) {
		*into = d.digits()
	}
}

// digits is a whole number of at most 18 of them: all that are longer are odd.
func (d *decoder) digits() (v int64) {
	sign := int64(1)
	if d.peek() == '-' {
		sign = -1
		d.at++
	}
	begin := d.at
	for ; d.peek() >= '0' && d.peek() <= '9' && d.at-begin < 18; d.at++ {
		v = 10*v + int64(d.b[d.at]-'0')
	}
	switch n := d.at - begin; {
	case n == 0, n > 1 && d.b[begin] == '0':
		d.odd = true
	}
	return sign * v // what follows must be the next field, or the end: another digit, or a point, is odd there
}

// value is for what is small or rare.
func (d *decoder) value(field string, into any) {
	if d.has(field) {
		d.strictly(into)
	}
}

// strictly reads the next value, whatever it is.
func (d *decoder) strictly(into any) {
	begin := d.at
	d.skip()
	if !d.odd && strictly(d.b[begin:d.at], into) != nil {
		d.odd = true
	}
}

// skip moves past the next value.
func (d *decoder) skip() {
	for depth := 0; d.at < len(d.b) && !d.odd; {
		switch d.b[d.at] {
		case '"':
			d.skipText()
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return
			}
			depth--
		case ',':
			if depth == 0 {
				return
			}
		}
		d.at++
	}
	d.odd = true // there is always something after it
}

// skipText moves past a text.
func (d *decoder) skipText() {
	for d.at++; ; d.at++ {
		end := bytes.IndexByte(d.b[d.at:], '"')
		if end < 0 {
			d.at, d.odd = len(d.b), true
			return
		}
		slashes := 0
		for slashes < end && d.b[d.at+end-1-slashes] == '\\' {
			slashes++
		}
		if d.at += end; slashes%2 == 0 { // else it is one of the text's own
			d.at++
			return
		}
	}
}

package market

import (
	"bytes"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
)

// decodeReservationEvent reads an event about a reservation.
func decodeReservationEvent(data []byte, before known) (Event, bool) {
	d := &decoder{b: data, known: before}
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

// Each reads something for each number below n, in any order or at once, and takes it in order, on the caller's goroutine, as soon as
// it was read: the market starts no goroutines itself.
type Each func(n int, read, take func(i int))

// inTurn is the plain one.
func inTurn(n int, read, take func(int)) {
	for i := range n {
		read(i)
		take(i)
	}
}

// decodeSnapshot reads a snapshot, but for its reservations: of them it returns the pieces that decodeKept reads.
func decodeSnapshot(data []byte, each Each) (s snapshot, reservations [][]byte, ok bool) {
	d := &decoder{b: data}
	d.take('{')
	d.unsigned("revision", &s.Revision)
	d.number("time", &s.Time)
	if d.has("members") {
		s.Members = d.members(each)
	}
	d.value("tokens", &s.Tokens)
	d.value("offers", &s.Offers)
	d.value("spent", &s.Spent)
	d.value("passed", &s.Passed)
	if d.has("reservations") {
		reservations = d.pieces(`},{"id":`)
	}
	d.number("awake", &s.Awake)
	d.value("presences", &s.Presences)
	d.value("records", &s.Records)
	d.value("operators", &s.Operators)
	d.take('}')
	return s, reservations, d.done()
}

func (d *decoder) members(each Each) (out []*Member) {
	pieces := d.pieces("")
	read, odd := make([][]*Member, len(pieces)), make([]bool, len(pieces))
	each(len(pieces), func(i int) {
		odd[i] = strictly(slices.Concat([]byte("["), pieces[i], []byte("]")), &read[i]) != nil
	}, func(i int) {
		out = append(out, read[i]...)
		d.odd = d.odd || odd[i]
	})
	return out
}

// pieces cuts a list of records into pieces to be read one by one. Where between stands between two of them and nowhere else, most of the
// list is not looked at; if it stood elsewhere, the pieces would be odd.
func (d *decoder) pieces(between string) (out [][]byte) {
	d.take('[')
	for more := true; more && !d.odd; {
		begin := d.at
		if !d.leap(between) {
			for d.skip(); d.peek() == ',' && d.at-begin < pieceSize; d.skip() {
				d.at++
			}
		}
		d.odd = d.odd || d.at == begin // nothing that is empty is written
		out = append(out, d.b[begin:d.at])
		if more = d.peek() == ','; more {
			d.at++
		}
	}
	d.take(']')
	return out
}

// leap moves to the comma of what stands between two records, a piece further on.
func (d *decoder) leap(between string) bool {
	if between == "" || len(d.b)-d.at <= pieceSize {
		return false
	}
	to := bytes.Index(d.b[d.at+pieceSize:], []byte(between))
	if to >= 0 {
		d.at += pieceSize + to + strings.IndexByte(between, ',')
	}
	return to >= 0
}

const pieceSize = 1 << 20

func decodeKept(piece []byte) (out []kept, odd bool) {
	d := &decoder{b: piece, known: newKnown()}
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
	d.number("longest", &r.Longest)
	d.number("acceptBy", &r.AcceptBy)
	d.number("waitUntil", &r.WaitUntil)
	d.number("waitedSince", &r.WaitedSince)
	d.number("ended", &r.Ended)
	d.number("rememberUntil", &r.RememberUntil)
	d.number("from", &r.From)
	d.value("past", &r.Past)
	d.names("next", &r.Next)
	d.value("plans", &r.Plans)
	d.value("tried", &r.Tried)
	d.text("assignment", &r.Assignment)
	d.text("acceptance", &r.Acceptance)
	d.text("end", &r.End)
	d.text("reclaim", &r.Reclaim)
	d.number("reclaimAt", &r.ReclaimAt)
	d.value("change", &r.Change)
	d.value("shrunk", &r.Shrunk)
	d.number("adopted", &r.Adopted)
	d.value("promise", &r.Promise)
	d.name("via", &r.Via)
	d.value("object", &r.Object)
	d.value("fence", &r.Fence)
	d.why(&e.Why)
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
	d.names("stickTo", &r.StickTo)
	d.value("maxPrice", &r.MaxPrice)
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
	if d.known.resources == nil {
		*into = d.amounts()
		return
	}
	begin := d.at
	d.skip()
	text := d.b[begin:d.at]
	all, is := d.known.resources[string(text)]
	if !is {
		d.at = begin
		if all = d.amounts(); !d.odd {
			d.known.resources[string(text)] = all
		}
	}
	*into = all
}

func (d *decoder) amounts() api.Resources {
	all := api.Resources{}
	d.entries(func(name string) {
		amount, err := resource.ParseQuantity(d.quotedPlain())
		_, twice := all[corev1.ResourceName(name)]
		d.odd = d.odd || err != nil || twice
		all[corev1.ResourceName(name)] = amount
	})
	return all
}

// why takes an explanation as it is: what reads it will say whether it can be.
func (d *decoder) why(into *Why) {
	if d.has("decision") {
		begin := d.at
		d.skip()
		*into = bytes.Clone(d.b[begin:d.at])
	}
}

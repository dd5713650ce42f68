package ui

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/ui/pages"
)

// borrowing reads what the cluster borrows.
func (u *UI) borrowing(ctx context.Context, r *http.Request) content {
	b := u.borrowed(ctx)
	return content{title: "Borrowing", body: func(v pages.View) templ.Component { return pages.Borrowing(v, b) }}
}

// borrowed returns all that the user may list. There may be 5,000 requests, so the pages share it until an object changes.
func (u *UI) borrowed(ctx context.Context) pages.Borrowed {
	version := u.changes.Load()
	u.mu.Lock()
	last := u.last
	u.mu.Unlock()
	if last.version == version && time.Since(last.at) < questionsEvery && len(last.Failed) == 0 {
		return last.Borrowed
	}
	first := last.at.IsZero() || len(last.Failed) > 0
	b, _, _ := u.reads.Do(strconv.FormatUint(version, 10), func() (any, error) {
		until, _ := ctx.Deadline() // another page may share this: it outlives the browser that asked
		ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
		defer cancel()
		next := lastBorrowed{u.readBorrowed(ctx, first), version, time.Now()}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.last = next
		return next.Borrowed, nil
	})
	return b.(pages.Borrowed)
}

// lastBorrowed is what was read at a version of the objects.
type lastBorrowed struct {
	pages.Borrowed
	version uint64
	at      time.Time
}

// readBorrowed reads all that the user may list. What cannot be read is named: the rest is shown. The first time it waits
// for all kinds at once.
func (u *UI) readBorrowed(ctx context.Context, first bool) pages.Borrowed {
	var pools []api.Envelope[api.KnownVirtualNodePool]
	var deals []api.Envelope[api.Deal]
	var noRequests, noPools, noDeals, noInstructions error
	faults, uses := map[string]metav1.Condition{}, map[string]pages.Use{}
	requests := func(yield func(client.RequestStatus) bool) {
		noRequests = u.o.Reads.EachRequest(ctx, func(r client.RequestStatus) { yield(r) })
	}
	together(
		func() {
			if first {
				_ = u.o.Reads.EachRequest(ctx, func(client.RequestStatus) {})
			}
		},
		func() { pools, noPools = u.o.Reads.VirtualNodePools(ctx) },
		func() { deals, noDeals = u.o.Reads.Contracts(ctx) },
		func() {
			noInstructions = u.o.Reads.EachInstruction(ctx, func(i *api.ReservationInstruction) {
				if c := explain.PodFault(i.Status.Conditions); c != nil {
					faults[i.Namespace+"/"+i.Name] = *c
				}
				uses[i.Namespace+"/"+i.Name] = pages.Use{Granted: i.Status.Granted, Used: i.Status.Used}
			})
		},
	)
	if api.CodeOf(noPools) == api.CodeForbidden { // who has one namespace may not list them: they are the cluster's
		noPools = nil
	}
	b := pages.NewBorrowed(pages.Listed{Requests: requests, Pools: pools, Deals: deals, Faults: faults, Uses: uses,
		AgentNamespace: u.o.Reads.AgentNamespace(ctx), Now: u.o.Acts.Now()})
	for kind, err := range map[string]error{"ResourceRequests": noRequests, "VirtualNodePools": noPools, "Contracts": noDeals,
		"ReservationInstructions": noInstructions} {
		if err != nil {
			b.Failed[kind] = asError(err)
		}
	}
	return b
}

// requestActs are the acts of the page of a request.
var requestActs = map[string]act{
	"release":  (*UI).release,
	"extend":   (*UI).extend,
	"resize":   (*UI).resize,
	"withdraw": (*UI).withdraw,
	"confirm":  (*UI).confirm,
}

// request reads one request with all that explains it.
func (u *UI) request(ctx context.Context, r *http.Request) content {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	asked, err := u.o.Reads.Request(ctx, namespace, name)
	if err != nil && api.CodeOf(err) == api.CodeNotFound { // it may be newer than the watch
		asked, err = ask(ofObjects(ctx), u.source, question{"request/" + namespace + "/" + name, "the request"},
			func(ctx context.Context) (client.RequestStatus, error) { return u.o.Acts.Request(ctx, namespace, name) })
	}
	switch api.CodeOf(err) {
	case api.CodeNotFound:
		return content{title: name, status: http.StatusNotFound,
			body: func(v pages.View) templ.Component { return pages.NoRequest(v, namespace, name) }}
	case api.CodeForbidden:
		return u.forbidden(name, "ResourceRequests", err)
	}
	if err != nil {
		return u.failed(name, err)
	}
	a := pages.Asked{Request: asked, Namespace: namespace, Name: name}
	a.Git = u.o.Reads.GitOf(ctx, &api.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
	id := asked.Payload.Status.Reservation
	if id == "" {
		u.readEvents(ctx, &a)
		return content{title: name, body: func(v pages.View) templ.Component { return pages.Request(v, a) }}
	}
	u.readParts(ctx, &a)
	of := a
	together(
		func() { u.readEvents(ctx, &a) },
		func() { u.readWhy(ctx, &a, id) },
		func() { a.Pods = u.pods(ctx, of) },
		func() {
			if r.URL.Query().Get("panel") == "release" {
				impact, err := u.source.impact(ctx, namespace, name)
				a.Impact, a.ImpactFailed = impact, asError(err)
			}
		},
	)
	return content{title: name, body: func(v pages.View) templ.Component { return pages.Request(v, a) }}
}

// readEvents reads the Events of a request, as questions are asked: nothing watches them.
func (u *UI) readEvents(ctx context.Context, a *pages.Asked) {
	all, err := ask(ofObjects(ctx), u.source, question{"events/" + a.Namespace + "/" + a.Name, "the events"}, func(ctx context.Context) ([]explain.Event, error) {
		all, err := u.o.Acts.Events(ctx, "ResourceRequest", a.Namespace, a.Name)
		return explain.Events(all), err
	})
	if a.NoEvents = asError(err); err == nil {
		a.Events = all
	}
}

// readWhy asks the agent about the reservation of a request, and about its provider.
func (u *UI) readWhy(ctx context.Context, a *pages.Asked, id string) {
	reservation, err := u.source.reservation(ctx, id)
	if a.Unexplained = asError(err); err != nil {
		return
	}
	a.Reservation = &reservation
	if p := reservation.Payload; p.Provider != "" && p.State.Counts() {
		known, err := u.source.cluster(ctx, p.Provider)
		if a.NoProvider = asError(err); err == nil {
			a.Provider = &known
		}
	}
}

// readParts reads what the cluster carries out for a request, of all parts if it is split, and what they cost. What cannot
// be read is left out.
func (u *UI) readParts(ctx context.Context, a *pages.Asked) {
	ids := explain.Reservations(a.Request.Payload.Status)
	for _, id := range ids {
		if i, err := u.o.Reads.Instruction(ctx, a.Namespace, id); err == nil {
			a.Instructions = append(a.Instructions, i)
		}
	}
	deals, err := u.o.Reads.Contracts(ctx)
	if err != nil {
		return
	}
	for _, d := range deals {
		if slices.Contains(ids, d.Payload.Spec.Reservation) {
			a.Contracts = append(a.Contracts, d)
		}
	}
}

// failed is a page whose subject cannot be read.
func (u *UI) failed(title string, err error) content {
	e := asError(err)
	status := cmp.Or(api.Codes[e.Code].Status, http.StatusInternalServerError)
	if pages.IsLoading(e) {
		status = http.StatusOK
	}
	return content{title: title, status: status, body: func(pages.View) templ.Component { return pages.Unread(title, e) }}
}

// forbidden is a page whose subject the user may not read, of a kind such as "VirtualNodePools".
func (u *UI) forbidden(title, kind string, err error) content {
	failed := map[string]*api.Error{kind: asError(err)}
	return content{title: title, status: http.StatusForbidden,
		body: func(v pages.View) templ.Component { return pages.Forbidden(v, title, failed) }}
}

// target returns the request that a form is about. Errors: Conflict if it is another one by now, or its reservation is.
func (u *UI) target(ctx context.Context, r *http.Request) (asked client.RequestStatus, to []string, err error) {
	namespace, name := r.PathValue("namespace"), r.PathValue("name")
	asked, err = u.o.Acts.Request(ctx, namespace, name)
	s := asked.Payload.Status
	if err == nil && (r.PostForm.Get("reservation") != s.Reservation ||
		r.PostForm.Get("generation") != strconv.FormatInt(s.Generation, 10) ||
		r.PostForm.Get("revision") != pages.Revision(asked)) {
		err = api.Errorf(api.CodeConflict, "request %s has changed since you saw it: it is %s of %s now", asked.ID,
			cmp.Or(s.Reservation, "without a reservation"), pages.Amounts(s.Resources)).Fix("look at it again, then decide")
	}
	return asked, []string{"requests", namespace, name}, err
}

func (u *UI) release(ctx context.Context, r *http.Request) ([]string, string, error) {
	asked, _, err := u.target(ctx, r)
	if err != nil {
		return nil, "", err
	}
	if id := asked.Payload.Status.Reservation; id != "" {
		err = u.o.Acts.ReleaseLocally(ctx, id, api.Release{VolumesDie: r.PostForm.Get("volumes")})
	} else {
		namespace, name, _ := strings.Cut(asked.ID, "/")
		err = u.o.Acts.DeleteRequest(ctx, namespace, name)
	}
	return []string{"borrowing"}, asked.ID + " is being released.", err
}

func (u *UI) extend(ctx context.Context, r *http.Request) ([]string, string, error) {
	last := strings.TrimSpace(r.PostForm.Get("for"))
	d, wrong := pages.ReadDuration("for", last, "4h, 90m or 2d")
	if wrong != nil {
		return nil, "", wrong
	}
	asked, to, err := u.target(ctx, r)
	if err != nil {
		return nil, "", err
	}
	now := u.o.Acts.Now()
	change, err := cluster.MoveEnd(asked, now.Add(d), now, false)
	if e := asError(err); e != nil && e.Field == "--shorten" {
		return nil, "", e.At("for").FixBy("give a longer time; to end it earlier", "bourse", "-n", to[1], "extend",
			to[2], "--for", last, "--shorten")
	} else if e != nil {
		return nil, "", e.At("for")
	}
	_, err = u.o.Acts.ChangeLocally(ctx, asked.Payload.Status.Reservation, change)
	return to, "The new end is asked for. This page shows what the provider answers.", err
}

func (u *UI) resize(ctx context.Context, r *http.Request) ([]string, string, error) {
	var change api.ReservationChange
	var err error
	if units := r.PostForm.Get("units"); units != "" {
		if change.Units, err = strconv.ParseInt(units, 10, 64); err != nil || change.Units < 1 {
			return nil, "", api.Invalid("units", "%.40q is not a number of units", units).Fix("give a number of 1 or more")
		}
	}
	if change.Resources, err = formAmounts(r); err != nil {
		return nil, "", err
	}
	asked, to, err := u.target(ctx, r)
	if err != nil {
		return nil, "", err
	}
	request := asked.Payload.Request
	for name, q := range change.Resources {
		if q.IsZero() {
			return nil, "", api.Invalid("resources."+string(name), "0 takes all of it away").FixBy("give what the pods need; to take it away",
				"bourse", "-n", to[1], "resize", to[2], "--resource", string(name)+"=0")
		}
	}
	if p := request.Purchase; p != nil && change.Units == max(p.Units, 1) || p == nil && covers(request.Resources, change.Resources) {
		return to, "It asks for this size already. Nothing changes.", nil
	}
	_, err = u.o.Acts.ChangeLocally(ctx, asked.Payload.Status.Reservation, change)
	return to, "The new size is asked for. This page shows what the provider answers.", err
}

// covers reports whether a size has each of some amounts.
func covers(size, some api.Resources) bool {
	for name, q := range some {
		if had, has := size[name]; !has || had.Cmp(q) != 0 {
			return false
		}
	}
	return true
}

func (u *UI) withdraw(ctx context.Context, r *http.Request) ([]string, string, error) {
	asked, to, err := u.target(ctx, r)
	if err != nil {
		return nil, "", err
	}
	_, err = u.o.Acts.ChangeLocally(ctx, asked.Payload.Status.Reservation, api.ReservationChange{Withdraw: true})
	return to, "The change is withdrawn. What is in force stays.", err
}

func (u *UI) confirm(ctx context.Context, r *http.Request) ([]string, string, error) {
	asked, to, err := u.target(ctx, r)
	if err != nil {
		return nil, "", err
	}
	namespace, name, _ := strings.Cut(asked.ID, "/")
	_, err = u.o.Acts.ConfirmRequest(ctx, namespace, name)
	return to, asked.ID + " is confirmed.", err
}

// formAmounts returns the amounts of a form: its fields "amount.NAME". Errors: Invalid.
func formAmounts(r *http.Request) (api.Resources, error) {
	out := api.Resources{}
	for field, values := range r.PostForm {
		name, is := strings.CutPrefix(field, "amount.")
		if !is || len(values) == 0 || strings.TrimSpace(values[0]) == "" {
			continue
		}
		q, wrong := pages.ReadAmount("resources."+name, name, strings.TrimSpace(values[0]))
		if wrong != nil {
			return nil, wrong
		}
		out[pages.ResourceName(name)] = q
	}
	return out, nil
}

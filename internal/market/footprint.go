package market

import (
	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/amounts"
)

// About how many bytes of memory a record takes besides its texts, with its entries in maps and lists.
const (
	recordBytes   = 1024
	requestBytes  = 512
	resourceBytes = 160 // a resource of a request
	amountBytes   = 24
	textBytes     = 16 // an element of a list
	triedBytes    = 64
	changeBytes   = 256
	saleBytes     = 48
	documentBytes = 1536 // an assignment and its acceptance, besides the resources
	accountBytes  = 768  // of an advertisement, with the sums
	listedBytes   = 192  // a commitment that is listed
	soldBytes     = 256  // a sale that is listed
)

// footprint returns about how many bytes of memory a reservation takes, with the documents that it
// still needs to be bound. The bounds on a consumer's memory use it.
func footprint(r *Reservation) int64 {
	n := recordBytes + len(r.ID) + len(r.Consumer) + len(r.Pool) +
		len(r.Key) + len(r.Digest) + len(r.Message) + len(r.Provider) +
		len(r.Assignment) + len(r.Acceptance) + len(r.End) + len(r.Reclaim) + len(r.Via) + len(r.Why) + listBytes(r.Size) +
		texts(r.Group) + texts(r.Next) + len(r.Past)*amountBytes + len(r.Plans)*2*saleBytes
	if r.Assignment == "" && !r.State.Over() {
		n += documentBytes + 2*listBytes(r.Size)
	}
	for _, t := range r.Tried {
		n += triedBytes + len(t.Provider) + len(t.Message)
	}
	if r.Request != nil {
		n += asked(r.Request)
	}
	if c := r.Change; c != nil {
		n += changeBytes + len(c.Assignment) + len(c.Acceptance) + len(c.Message) + listBytes(c.Size)
	}
	if r.Shrunk != nil {
		n += listBytes(r.Shrunk.By)
	}
	return int64(n)
}

// footprint returns about how many bytes of memory an account of an advertisement takes.
func (a *MeasuredAccount) footprint() int {
	n := accountBytes + listBytes(a.Used)
	for id, size := range a.Commitments {
		n += listedBytes + len(id) + listBytes(size)
	}
	for id, u := range a.Sold {
		n += soldBytes + len(id) + len(u.Of.Offer) + len(u.Of.Plan)
	}
	return n
}

func asked(r *api.Request) int {
	n := requestBytes + len(r.Where) + len(r.Pool) + len(r.Target) +
		texts(r.Exclude) + texts(r.Prefer) + texts(r.StickTo) + len(r.RelendKey)
	for name := range r.Resources {
		n += resourceBytes + len(name)
	}
	for name := range r.PodShape {
		n += resourceBytes + len(name)
	}
	for name, value := range r.Properties {
		n += 4*textBytes + len(name) + len(value)
	}
	if r.Purchase != nil {
		n += 2 * saleBytes
	}
	return n
}

func texts(all []string) (n int) {
	for _, text := range all {
		n += textBytes + len(text)
	}
	return n
}

func listBytes(all amounts.List) (n int) {
	for _, a := range all {
		n += amountBytes + len(a.Resource)
	}
	return n
}

package pages

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/internal/explain"
)

// Others are the other clusters that this one may see, or has met.
type Others struct {
	Clusters []Neighbour
	Peers    []api.Envelope[api.KnownPeer]
	Failed   *api.Error // why the agent does not say which clusters there are
	NoPeers  *api.Error // why it is not known how their keys are trusted
}

// Neighbour is what a list shows of another cluster. There may be 10,000 of them.
type Neighbour struct {
	Name     string
	State    string
	Tone     Tone
	Hub      bool
	Region   string
	Free     []freeAmount
	GPUs     []string
	Uptime   *int64
	Honoured *int64
	Trust    string // "" before the clusters met
	Doubt    bool   // its key is not trusted
}

// freeAmount is what a pool has left of a resource, in thousandths: an amount with less memory than a Quantity.
type freeAmount struct {
	Of    *poolResource
	Milli int64
}

// poolResource names a resource of a pool.
type poolResource struct {
	Pool     string
	Resource ResourceName
}

func (f freeAmount) quantity() resource.Quantity {
	format := resource.DecimalSI
	if f.Of.Resource != "cpu" {
		format = resource.BinarySI
	}
	return *resource.NewMilliQuantity(f.Milli, format)
}

// Neighbours returns what lists show of clusters, in memory of its own.
func Neighbours(all []api.Envelope[api.Cluster]) []Neighbour {
	texts, of := map[string]string{}, map[poolResource]*poolResource{} // each once
	text := func(s string) string {
		if _, has := texts[s]; !has {
			texts[s] = strings.Clone(s)
		}
		return texts[s]
	}
	out := make([]Neighbour, len(all))
	for i, c := range all {
		p := c.Payload.Properties
		n := Neighbour{Name: strings.Clone(c.ID), Hub: p.Aggregator, Region: text(p.Region), Uptime: c.Payload.Uptime,
			Honoured: c.Payload.Honoured}
		n.State, n.Tone = standing(c.Payload)
		n.State = text(n.State)
		for _, gpu := range p.GPUs {
			n.GPUs = append(n.GPUs, text(gpu))
		}
		for pool, amounts := range c.Payload.Pools {
			for name, q := range amounts.Available {
				key := poolResource{text(pool), ResourceName(text(string(name)))}
				if of[key] == nil {
					of[key] = &key
				}
				n.Free = append(n.Free, freeAmount{of[key], q.MilliValue()})
			}
		}
		n.Free = slices.Clip(n.Free)
		out[i] = n
	}
	return out
}

// free returns what all pools have left of a resource, and whether the cluster shares any.
func (n Neighbour) free(name ResourceName) (sum freeAmount, has bool) {
	for _, f := range n.Free {
		if f.Of.Resource == name {
			sum, has = freeAmount{f.Of, sum.Milli + f.Milli}, true
		}
	}
	return sum, has
}

// gpuText names the GPUs of a cluster, with how many are free if it shares any: "2 free: NVIDIA-A100".
func (n Neighbour) gpuText() string {
	free, shares := int64(0), false
	for _, f := range n.Free {
		if strings.HasSuffix(string(f.Of.Resource), "/gpu") {
			free, shares = free+f.Milli/1000, true
		}
	}
	models := strings.Join(n.GPUs, ", ")
	switch {
	case !shares:
		return models
	case models == "":
		return strconv.FormatInt(free, 10) + " free"
	}
	return strconv.FormatInt(free, 10) + " free: " + models
}

// evictable reports whether the cluster may have something here that an eviction would end.
func (o Other) evictable() bool {
	return o.Audit == nil || len(o.Audit.Reservations) > 0
}

// rows returns all clusters, with how their keys are trusted.
func (o Others) rows(v View) []Neighbour {
	peers := map[string]api.KnownPeer{}
	for _, p := range o.Peers {
		peers[p.ID] = p.Payload
	}
	out := make([]Neighbour, 0, len(o.Clusters))
	for _, row := range o.Clusters {
		if row.Name == v.Cluster {
			continue
		}
		if p, met := peers[row.Name]; met {
			row.trust(p)
			delete(peers, row.Name)
		}
		out = append(out, row)
	}
	for name, p := range peers {
		row := Neighbour{Name: name, State: "Not shown", Tone: Off}
		row.trust(p)
		out = append(out, row)
	}
	for i := range out {
		if o.NoPeers != nil {
			out[i].Trust = "not known"
		}
	}
	return out
}

// matching returns those lines that match the query, in its order.
func matching(rows []Neighbour, v View) []Neighbour {
	text, state := strings.ToLower(strings.TrimSpace(v.Query.Get("q"))), v.Query.Get("state")
	if text != "" || state != "" {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r Neighbour) bool {
			return state != "" && r.State != state || !r.has(text)
		})
	}
	sortRows(rows, v)
	return rows
}

// standing returns the state of a cluster in a word of `bourse clusters`.
func standing(c api.Cluster) (string, Tone) {
	state := explain.ClusterState(c)
	switch state {
	case "Fresh":
		return state, OK
	case "Silent", "Overcommitted":
		return state, Warn
	}
	return state, Off
}

// trust adds what is known of the key.
func (r *Neighbour) trust(p api.KnownPeer) {
	r.Trust, r.Doubt = trustOf(p)
	if p.Spec.Suspend {
		r.State, r.Tone = "Suspended", Warn
	}
}

// trustWords say how a key is trusted, by the reason of the condition Trusted.
var trustWords = map[string]string{
	"Confirmed": "confirmed by an admin", "Rotated": "signed by the key that an admin confirmed",
	"Endorsed": "endorsed by a root", "FirstUse": "pinned at the first contact, not confirmed",
	"Legacy": "no key: the broker vouches", "KeyChanged": "the key changed",
	"KeyUnconfirmed": "not confirmed, which the SharingPolicy requires", "NotMet": "not met yet",
}

// trustOf says how the key of a cluster is trusted, and whether it is not.
func trustOf(p api.KnownPeer) (text string, doubt bool) {
	c := meta.FindStatusCondition(p.Status.Conditions, api.ConditionTrusted)
	if c == nil {
		return "", false
	}
	return cmp.Or(trustWords[c.Reason], c.Reason), c.Status == metav1.ConditionFalse && c.Reason != "NotMet"
}

// has reports whether a line has a text, which is in lower case.
func (r Neighbour) has(text string) bool {
	in := func(s string) bool { return strings.Contains(strings.ToLower(s), text) }
	return in(r.Name) || in(r.Region) || slices.ContainsFunc(r.GPUs, in)
}

// sortRows sorts by the query, else by name. What is not known comes last.
func sortRows(rows []Neighbour, v View) {
	column, down := v.ordered()
	number := func(n *int64) (int64, bool) {
		if n == nil {
			return 0, false
		}
		return *n, true
	}
	amount := func(f freeAmount, has bool) (int64, bool) { return f.Milli, has }
	values := map[string]func(Neighbour) (int64, bool){
		"cpu":      func(r Neighbour) (int64, bool) { return amount(r.free("cpu")) },
		"memory":   func(r Neighbour) (int64, bool) { return amount(r.free("memory")) },
		"uptime":   func(r Neighbour) (int64, bool) { return number(r.Uptime) },
		"honoured": func(r Neighbour) (int64, bool) { return number(r.Honoured) },
	}
	words := map[string]func(Neighbour) string{
		"state":  func(r Neighbour) string { return r.State },
		"region": func(r Neighbour) string { return r.Region },
	}
	slices.SortFunc(rows, func(a, b Neighbour) int {
		first := 0
		if of := values[column]; of != nil {
			x, hasX := of(a)
			y, hasY := of(b)
			if hasX != hasY {
				return map[bool]int{true: -1, false: 1}[hasX]
			}
			first = cmp.Compare(x, y)
		} else if of := words[column]; of != nil {
			first = cmp.Compare(of(a), of(b))
		} else if first = cmp.Compare(a.Name, b.Name); column != "name" {
			return first
		}
		if down {
			first = -first
		}
		return cmp.Or(first, cmp.Compare(a.Name, b.Name))
	})
}

// statesOf returns the states of clusters, for the filter.
func statesOf(rows []Neighbour) []string {
	seen := map[string]bool{}
	for _, r := range rows {
		seen[r.State] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Other is one other cluster, with what is between it and this one.
type Other struct {
	Name     string
	Cluster  *api.Envelope[api.Cluster]   // nil: it does not show itself
	Peer     *api.Envelope[api.KnownPeer] // nil: the clusters have not met
	Peerings []api.Peering
	Between  []client.Reservation // both directions
	Offers   []api.Envelope[api.Listing]
	Audit    *api.Audit
	Git      string // what keeps its Peer as it is in Git; "": nothing does
	// NoCluster, NoPeer, NoBetween, NoPeerings, NoOffers and NoAudit are why these are not known.
	NoCluster, NoPeer, NoBetween, NoPeerings, NoOffers, NoAudit *api.Error
}

// state returns the state of the cluster in a word.
func (o Other) state() (string, Tone) {
	if o.Peer != nil && o.Peer.Payload.Spec.Suspend {
		return "Suspended", Warn
	}
	if o.Cluster == nil && IsLoading(o.NoCluster) {
		return "Loading", Off
	}
	if o.Cluster == nil {
		return "Not shown", Off
	}
	return standing(o.Cluster.Payload)
}

// lead is one sentence about the state.
func (o Other) lead() string {
	switch state, _ := o.state(); {
	case state == "Suspended":
		return "You lend it nothing more. What it has goes on to its end. " + o.Peer.Payload.Spec.SuspendReason
	case state == "Loading":
		return ""
	case state == "Not shown":
		if len(o.Between)+len(o.Peerings) > 0 {
			return "It lends this cluster nothing, so it does not show itself here."
		}
		return "It is not shown here now: it left, or it does not show itself to this cluster."
	case state == "Silent":
		return "The broker has not heard from its agent" + o.contact() + ". It gets nothing new until it is back."
	case o.Cluster.Payload.PassedOver != "":
		return "New requests of this cluster pass over it: " + o.Cluster.Payload.PassedOver
	case state == "Overcommitted":
		return "It has less than it lends now, so it gets nothing new."
	case state == "SharesNothing":
		return "It only borrows: it shares nothing with this cluster."
	}
	return "Its agent answers" + o.contact() + "."
}

func (o Other) contact() string {
	if o.Cluster == nil || o.Cluster.Payload.HeardAgo == nil {
		return ""
	}
	return ", last heard " + explain.LastHeard(o.Cluster.Payload)
}

// fingerprint returns the pinned fingerprint; "" before the clusters met.
func (o Other) fingerprint() string {
	if o.Peer == nil {
		return ""
	}
	return o.Peer.Payload.Status.Fingerprint
}

// confirmed reports whether an admin confirmed the pinned key.
func (o Other) confirmed() bool {
	return o.fingerprint() != "" && o.Peer.Payload.Spec.Fingerprint == o.fingerprint()
}

// trust says how its key is trusted.
func (o Other) trust() (text string, tone Tone) {
	switch {
	case o.NoPeer != nil && o.NoPeer.Code == api.CodeForbidden:
		return "not known: you may not read Peers here. An admin of this cluster can bind the role bourse-viewer", Off
	case o.NoPeer != nil:
		return "not known: " + api.WithoutCode(o.NoPeer.Detail), Off
	case o.Peer == nil:
		return "not met yet: the first contact pins its key", Off
	}
	text, doubt := trustOf(o.Peer.Payload)
	switch {
	case doubt:
		return text, Bad
	case o.confirmed():
		return text, OK
	}
	return cmp.Or(text, "not met yet"), Wait
}

// property is one line of a card.
type property struct{ Name, Value string }

// properties returns what the card says, without what is empty.
func (o Other) properties() []property {
	if o.Cluster == nil {
		return nil
	}
	p := o.Cluster.Payload.Properties
	var labels []string
	for _, key := range slices.Sorted(maps.Keys(p.Labels)) {
		labels = append(labels, key+"="+p.Labels[key])
	}
	network := ""
	if p.Network != "" {
		network = string(p.Network)
	}
	all := []property{
		{"Region", p.Region}, {"Zones", strings.Join(p.Zones, ", ")}, {"GPUs", strings.Join(p.GPUs, ", ")},
		{"Architectures", strings.Join(p.Architectures, ", ")}, {"Kubernetes", p.Kubernetes}, {"Liqo", p.Liqo},
		{"Network", network}, {"Storage classes", strings.Join(p.StorageClasses, ", ")}, {"API server", p.APIServer},
		{"Connector", p.Connector}, {"Labels", strings.Join(labels, ", ")},
	}
	return slices.DeleteFunc(all, func(p property) bool { return p.Value == "" })
}

// shelf is one resource of a pool: what of it is shared, reserved and available.
type shelf struct {
	Name            string
	Reserved, Whole float64
	Text            string
}

// shelves returns the resources of a pool.
func shelves(a api.Amounts) []shelf {
	var out []shelf
	for _, name := range names(a.Shared, a.Reserved) {
		shared, reserved, available := a.Shared[name], a.Reserved[name], a.Available[name]
		if shared.IsZero() && reserved.IsZero() {
			continue
		}
		part, unit := amount(string(name), reserved)
		if _, whole := amount(string(name), shared); unit != whole {
			part += " " + unit
		}
		out = append(out, shelf{resourceLabel(string(name)), reserved.AsApproximateFloat64(), shared.AsApproximateFloat64(),
			part + " of " + Amount(string(name), shared) + " reserved, " + left(string(name), available)})
	}
	return out
}

// left says how much is free. Less than nothing is free at a cluster that has less than it lends.
func left(name string, q resource.Quantity) string {
	if q.Sign() >= 0 {
		return Amount(name, q) + " free"
	}
	q.Neg()
	return Amount(name, q) + " too few"
}

// resourceLabel returns the name of a resource as pages write it.
func resourceLabel(name string) string {
	switch name {
	case "cpu":
		return "CPU"
	case "memory":
		return "Memory"
	case "pods":
		return "Pods"
	}
	return Foreign(name)
}

// between is one reservation between the two clusters.
type between struct {
	ID, Object string
	Lends      bool // the other cluster lends it
	State      string
	Tone       Tone
	Size       string
	Ends       time.Time
}

// reservations returns what is between the two clusters, what counts first.
func (o Other) reservations() []between {
	var out []between
	for _, r := range o.Between {
		p := r.Payload
		out = append(out, between{r.ID, p.Object, p.Provider == o.Name, string(p.State), toneOf(p.State), Amounts(p.Resources),
			p.Until.Time})
	}
	slices.SortFunc(out, func(a, b between) int {
		return cmp.Or(cmp.Compare(strconv.FormatBool(a.Tone == Off || a.Tone == Bad), strconv.FormatBool(b.Tone == Off || b.Tone == Bad)),
			a.Ends.Compare(b.Ends), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// peeringTone is how the state of a peering is shown.
func peeringTone(s api.PeeringState) Tone {
	switch s {
	case api.PeeringOpen:
		return OK
	case api.PeeringClosing, api.PeeringLingering:
		return Off
	}
	return Wait
}

// deleted names what is deleted: "3 pods, and 1 volume with the data".
func deleted(pods, volumes int) string {
	var all []string
	if pods > 0 {
		all = append(all, explain.Count(pods, "pod"))
	}
	if volumes > 0 {
		all = append(all, explain.Count(volumes, "volume")+" with the data")
	}
	return strings.Join(all, ", and ")
}

// dies returns what an eviction ends: how many pods, and the volumes whose data is deleted.
func (o Other) dies() (pods int, volumes []string) {
	for _, n := range o.Audit.Namespaces {
		pods += n.Pods
		for _, claim := range n.Volumes {
			volumes = append(volumes, n.Name+"/"+claim)
		}
	}
	return pods, volumes
}

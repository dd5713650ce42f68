package pages

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/instruction"
	"github.com/bourse-dev/bourse/internal/kubeobject"
)

// Lends is what a cluster lends, and what waits for its admin.
type Lends struct {
	Approvals []api.Envelope[api.Approval]
	Lent      []api.ProviderInstruction
	Peers     []api.Envelope[api.KnownPeer]
	Policy    *api.SharingPolicy // nil: there is none, or the user may not read it
	// Shared has the amounts of the cluster's pools, by pool.
	Shared map[string]api.Amounts
	// Failed says what could not be read: a kind of object and why.
	Failed map[string]*api.Error
}

// lentRow is one reservation of a consumer.
type lentRow struct {
	ID, State string
	Tone      Tone
	Why       string
	Pool      string
	Reserved  string
	Granted   string
	Used      string
	Ends      time.Time
	Overstays bool
}

// consumer is one cluster that borrows, with its reservations.
type consumer struct {
	Name                    string
	Suspended               bool
	Overstays               bool
	Reserved, Granted, Used api.Resources
	Lent                    []lentRow
	Of                      int // how many reservations it has, also on other pages of the list
}

// consumers returns those that have something here and match the query, those that overstay first.
func (l Lends) consumers(v View) []consumer {
	suspended := map[string]bool{}
	for _, p := range l.Peers {
		suspended[p.ID] = p.Payload.Spec.Suspend
	}
	text := strings.ToLower(strings.TrimSpace(v.Query.Get("q")))
	var out []consumer
	for _, i := range l.Lent { // sorted by consumer
		if i.Status.Approval != nil || text != "" && !strings.Contains(strings.ToLower(i.Spec.Consumer+" "+i.Name), text) {
			continue
		}
		if len(out) == 0 || out[len(out)-1].Name != i.Spec.Consumer {
			out = append(out, consumer{Name: i.Spec.Consumer, Suspended: suspended[i.Spec.Consumer]})
		}
		c := &out[len(out)-1]
		row := lentRowOf(i)
		c.Lent, c.Overstays = append(c.Lent, row), c.Overstays || row.Overstays
		if i.Status.State.Counts() {
			c.Reserved = plus(c.Reserved, i.Spec.Resources)
		}
	}
	for i := range out {
		out[i].Granted, out[i].Used = l.accounts(out[i].Name)
	}
	slices.SortStableFunc(out, func(a, b consumer) int {
		return cmp.Compare(map[bool]int{true: 0, false: 1}[a.Overstays], map[bool]int{true: 0, false: 1}[b.Overstays])
	})
	return out
}

// lines returns how many reservations the consumers have.
func lines(all []consumer) (n int) {
	for _, c := range all {
		n += len(c.Lent)
	}
	return n
}

// within returns the consumers with those of their reservations that a part of the list has.
func within(all []consumer, s span) []consumer {
	var out []consumer
	first := 0
	for _, c := range all {
		from, to := max(s.From-first, 0), min(s.To-first, len(c.Lent))
		first += len(c.Lent)
		if from < to {
			c.Of, c.Lent = len(c.Lent), c.Lent[from:to]
			out = append(out, c)
		}
	}
	return out
}

// accounts returns what a consumer is granted and uses. Reservations of one account show the same sum.
func (l Lends) accounts(name string) (granted, used api.Resources) {
	seen := map[string]bool{}
	for _, i := range l.Lent {
		sum := i.Status.Account
		if sum == nil {
			sum = &api.AccountSum{Granted: i.Status.Granted, Used: i.Status.Used}
		}
		if i.Spec.Consumer == name && !seen[i.Spec.Pool] {
			seen[i.Spec.Pool] = i.Status.Account != nil
			granted, used = plus(granted, sum.Granted), plus(used, sum.Used)
		}
	}
	return granted, used
}

func lentRowOf(i api.ProviderInstruction) lentRow {
	row := lentRow{ID: i.Name, State: string(i.Status.State), Tone: toneOf(i.Status.State), Pool: i.Spec.Pool,
		Reserved: Amounts(i.Spec.Resources), Granted: Amounts(i.Status.Granted), Used: Amounts(i.Status.Used), Ends: i.Spec.Until.Time}
	if row.State == "" {
		row.State, row.Tone = string(api.Reserved), Wait
	}
	if i.Status.SharedBy > 1 && len(i.Status.Used) == 0 {
		row.Used = "in the sum"
	}
	if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionOverstaying); c != nil && c.Status == metav1.ConditionTrue {
		row.Overstays, row.Tone, row.Why = true, Bad, c.Message
	} else if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionCovered); c != nil && c.Status == metav1.ConditionFalse {
		row.Tone, row.Why = Warn, c.Message
	}
	return row
}

// plus returns a sum.
func plus(a, b api.Resources) api.Resources {
	out := api.Resources{}
	add(out, a)
	add(out, b)
	return out
}

// waiting returns the request of an ID that waits for approval; nil if there is none any more.
func (l Lends) waiting(id string) *api.Envelope[api.Approval] {
	for i := range l.Approvals {
		if l.Approvals[i].ID == id {
			return &l.Approvals[i]
		}
	}
	return nil
}

// asks says in one sentence what a consumer asks for.
func asks(a api.Approval) string {
	text := Amounts(a.Resources) + " of pool " + a.Pool
	if a.Offer != "" {
		text += ": " + explain.Count(int(max(a.Units, 1)), "unit") + " of " + a.Offer + "/" + a.Plan
	}
	if a.Price != "" {
		text += " at " + a.Price + " each"
	}
	return text
}

// exampleSharing is where a new policy begins.
const exampleSharing = `# Share half of what the nodes have, with every member that an admin here approves.
approveWithin: 8h
maxPerConsumer:
  cpu: "16"
  memory: 64Gi
pools:
- name: general
  percentage: 50
`

// policyText returns what a form to change the policy begins with.
func (l Lends) policyText() string {
	if l.Policy == nil {
		return exampleSharing
	}
	return YAML(l.Policy.Spec)
}

// git returns what keeps the policy as it is in Git; "": nothing does.
func (l Lends) git() string {
	if l.Policy == nil {
		return ""
	}
	return kubeobject.GitOf(l.Policy)
}

// generation returns that of the policy that the page shows.
func (l Lends) generation() int64 {
	if l.Policy == nil {
		return 0
	}
	return l.Policy.Generation
}

// YAML returns a spec as a form shows it.
func YAML(spec any) string {
	text, err := yaml.Marshal(spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// rules returns the policy in sentences.
func (l Lends) rules() []property {
	s := l.Policy.Spec
	seen := "every member"
	if a := s.VisibleTo; len(a.Clusters)+len(a.Labels) > 0 {
		parts := slices.Clone(a.Clusters)
		for name, value := range a.Labels {
			parts = append(parts, name+"="+value)
		}
		slices.Sort(parts)
		seen = strings.Join(parts, ", ")
	}
	length := func(d *metav1.Duration, none string) string {
		if d == nil {
			return none
		}
		return hours(d.Duration)
	}
	admin := "no: the agent answers at once"
	if s.ApproveWithin != nil {
		admin = "within " + hours(s.ApproveWithin.Duration)
	}
	all := []property{
		{"Seen by", seen}, {"Only if", s.Allow}, {"Keys", string(cmp.Or(s.Trust, api.TrustTofu))},
		{"An admin approves", admin}, {"At most per consumer", amountsOr(s.MaxPerConsumer)},
		{"At most per reservation", amountsOr(s.MaxPerReservation)}, {"Longest", length(s.MaxDuration, "no bound")},
		{"Only what is bought", yesNo(s.OnlyOffers)}, {"May be lent on", yesNo(s.Relend)},
	}
	return slices.DeleteFunc(all, func(p property) bool { return p.Value == "" })
}

func amountsOr(r api.Resources) string {
	if len(r) == 0 {
		return "no bound"
	}
	return Amounts(r)
}

func yesNo(is bool) string {
	if is {
		return "yes"
	}
	return "no"
}

// hours returns a duration without the zeros of Go's: "8h", "90m".
func hours(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(text, zero) {
			text = text[:len(text)-2]
		}
	}
	return text
}

// inForce returns why the policy is not in force; nil if it is.
func (l Lends) inForce() *metav1.Condition {
	for i, c := range l.Policy.Status.Conditions {
		if c.Type == api.ConditionReady && c.Status == metav1.ConditionFalse {
			return &l.Policy.Status.Conditions[i]
		}
	}
	return nil
}

// approveCommands approve a request as it is shown.
func approveCommands(v View, a api.Envelope[api.Approval]) []string {
	return []string{Quote("bourse", "approve", a.ID, "--digest", a.Payload.Digest),
		instruction.Approve.Command(v.object(a.ID), a.Payload.Digest)}
}

// refuseCommands refuse a request as it is shown, with a reason.
func refuseCommands(v View, a api.Envelope[api.Approval]) []string {
	const reason = "the rack is full"
	return []string{Quote("bourse", "refuse", a.ID, "--digest", a.Payload.Digest, "--reason", reason),
		instruction.Refuse.Command(v.object(a.ID), a.Payload.Digest+" "+reason)}
}

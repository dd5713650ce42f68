package agent

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/health"
	"github.com/bourse-dev/bourse/internal/liqo/plugin"
	"github.com/bourse-dev/bourse/internal/market"
)

// ceiling is what the resource plugin that the SharingPolicy names says that consumers may have here. The gate asks it each time, so
// nothing depends on whether news of it came; news only show what was promised above it.
type ceiling struct {
	cluster string
	market  *exchange.Exchange
	// address is what the SharingPolicy names; empty: there is no plugin.
	address func() string
	log     *slog.Logger
	// again is askAgain, and shorter in tests.
	again  time.Duration
	news   chan struct{}           // the address may be another
	traded chan struct{}           // the Ledger has changed
	poke   chan event.GenericEvent // shows it on the SharingPolicy

	// had are the consumers of whom the plugin is to be told when they have nothing here any more.
	had map[string]bool

	mu     sync.Mutex
	client *plugin.Client // of the address that was last looked at
	heard  bool           // that it answers, or why not
	wrong  error
	above  map[string]string // consumers who have more than it says now, and what
}

func newCeiling(cluster string, x *exchange.Exchange, sharing *policy, log *slog.Logger) *ceiling {
	address := func() string {
		if s := sharing.current.Load(); s != nil {
			return s.ResourcePlugin
		}
		return ""
	}
	return &ceiling{cluster: cluster, market: x, address: address, log: log, again: askAgain, poke: make(chan event.GenericEvent, 1), news: make(chan struct{}, 1), traded: make(chan struct{}, 1)}
}

const (
	// breath is how long it waits until it looks again at what a plugin allows, however much that has to tell.
	breath = time.Second
	// askAgain is the longest wait until a plugin that gives no usable answer is asked again, unasked by anybody.
	askAgain = 30 * time.Second
)

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// tell lets it look whether the SharingPolicy names another plugin.
func (c *ceiling) tell() { nudge(c.news) }

// of asks how much a consumer may have; nil where no plugin is named. Errors: Forbidden while it does not answer, without what is for this
// cluster's own people: where the plugin is, and what it said.
func (c *ceiling) of(ctx context.Context, consumer string) (*market.Amounts, error) {
	client, err := c.open()
	if client == nil || err != nil {
		return nil, err
	}
	amounts, err := c.allowed(ctx, client, consumer)
	if ctx.Err() != nil {
		return nil, ctx.Err() // it is we who have stopped
	}
	c.found(client, err)
	if err != nil {
		return nil, api.Errorf(api.CodeForbidden, "cluster %s asks a resource plugin how much it lends, and gets no usable answer now", c.cluster)
	}
	return &amounts, nil
}

func (c *ceiling) allowed(ctx context.Context, client *plugin.Client, consumer string) (market.Amounts, error) {
	r, err := client.ReadResources(ctx, consumer)
	if errors.Is(err, plugin.ErrRefused) { // some know a consumer only once it has bought something
		c.log.Info("the resource plugin allows a consumer nothing", "consumer", consumer, "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return market.Have("resources", r)
}

// open is the client of the plugin that the SharingPolicy names now; nil if it names none.
func (c *ceiling) open() (*plugin.Client, error) {
	address := c.address()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && c.client.Address == address {
		return c.client, nil
	}
	c.shut()
	if address == "" {
		return nil, nil
	}
	client, err := plugin.New(address)
	if err != nil {
		return nil, err
	}
	c.client = client
	return client, nil
}

func (c *ceiling) shut() {
	if c.client != nil {
		c.client.Close()
	}
	c.client, c.heard, c.wrong, c.above = nil, false, nil, nil
}

// found notes whether a plugin answers, and shows it where that is news.
func (c *ceiling) found(client *plugin.Client, err error) {
	c.mu.Lock()
	isNews := client == c.client && (!c.heard || (err == nil) != (c.wrong == nil))
	if client == c.client {
		c.heard, c.wrong = true, err
	}
	c.mu.Unlock()
	if !isNews {
		return
	}
	if err != nil {
		c.log.Warn("the resource plugin gives no usable answer: nothing new is accepted until it does", "error", err)
		c.tell()
	} else {
		c.log.Info("the resource plugin answers", "address", client.Address)
	}
	object := &api.SharingPolicy{}
	object.Name = "default"
	select {
	case c.poke <- event.GenericEvent{Object: object}:
	default: // it is about to be looked at
	}
}

// silent says whether a plugin gave no usable answer when it was last asked.
func (c *ceiling) silent() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wrong != nil
}

// renew lets a plugin be asked by another connection: the one that it has may lead nowhere.
func (c *ceiling) renew(client *plugin.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != client {
		return
	}
	if fresh, err := plugin.New(client.Address); err == nil {
		client.Close()
		c.client = fresh
	}
}

// current says whether what is known is of the plugin that the SharingPolicy names now.
func (c *ceiling) current() bool {
	return c.heard && c.client != nil && c.client.Address == c.address()
}

// condition is what the SharingPolicy shows of its plugin; nil if it names none, or nothing is known yet.
func (c *ceiling) condition() *metav1.Condition {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case !c.current():
		return nil
	case c.wrong != nil:
		return &metav1.Condition{Type: api.ConditionResourcePlugin, Status: metav1.ConditionFalse, Reason: "NoAnswer", Message: c.wrong.Error() + "; nothing new is accepted until then"}
	}
	return &metav1.Condition{Type: api.ConditionResourcePlugin, Status: metav1.ConditionTrue, Reason: "Answers", Message: "what it says is the most that is lent"}
}

// problems are what the doctor says of it.
func (c *ceiling) problems() (found []api.Problem) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.current() {
		return nil
	}
	if c.wrong != nil {
		found = append(found, health.ResourcePluginSilent.Of("resource plugin "+c.client.Address, "see whether it runs there, or take resourcePlugin out of the SharingPolicy", "%s", c.wrong))
	}
	for _, consumer := range slices.Sorted(maps.Keys(c.above)) {
		found = append(found, health.AboveResourcePlugin.Of("cluster "+consumer, "nothing needs to be done; to take it back: bourse evict "+consumer, "%s", c.above[consumer]))
	}
	return found
}

// run follows the plugin until ctx ends.
func (c *ceiling) run(ctx context.Context) error {
	var ledger sync.WaitGroup
	ledger.Go(func() { c.followLedger(ctx) })
	defer ledger.Wait()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.shut()
	}()
	wait := breath
	for ctx.Err() == nil {
		client, err := c.open()
		if err != nil {
			c.log.Warn("the resource plugin cannot be asked", "error", err)
		}
		if client == nil {
			wait = breath
			select {
			case <-c.news:
			case <-c.traded:
			case <-ctx.Done():
			}
			continue
		}
		if answers := c.follow(ctx, client); answers {
			wait = breath
		}
		if c.address() != client.Address {
			continue
		}
		if c.silent() {
			c.renew(client)
		}
		select {
		case <-time.After(wait):
		case <-c.news:
		case <-ctx.Done():
		}
		wait = min(2*wait, c.again)
	}
	return nil
}

// follow hears what a plugin tells, until it ends that or the SharingPolicy names another, and says whether it ever answered.
func (c *ceiling) follow(ctx context.Context, client *plugin.Client) (answers bool) {
	ctx, cancel := context.WithCancel(ctx)
	changed, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		ended <- client.Subscribe(ctx, func() { nudge(changed) }, func(string) { nudge(changed) })
	}()
	defer func() {
		cancel()
		if ended != nil {
			<-ended
		}
	}()
	var rest <-chan time.Time // until it may be looked at again
	due := false
	for {
		var tired <-chan time.Time // of a plugin that tells, and does not answer
		if c.silent() {
			tired = time.After(c.again)
		}
		select {
		case <-tired:
			return false
		case <-changed:
			if due = true; rest != nil {
				continue
			}
		case <-rest:
			rest = nil
		case <-c.traded:
			c.depart(ctx, client)
		case <-c.news:
			if c.address() != client.Address {
				return answers
			}
		case err := <-ended:
			ended = nil
			if errors.Is(err, plugin.ErrNoNews) {
				c.depart(ctx, client)
				c.look(ctx, client) // it is asked all the same, now and then
				return false
			} else if ctx.Err() == nil {
				c.found(client, err)
			}
			return answers
		}
		if due && rest == nil {
			answers, due, rest = c.look(ctx, client) || answers, false, time.After(breath)
			c.depart(ctx, client)
		}
	}
}

// look asks about everyone who has something here, and says whether the plugin answers.
func (c *ceiling) look(ctx context.Context, client *plugin.Client) bool {
	has, err := c.consumers(ctx, true)
	if err != nil {
		return false
	}
	above, failed := map[string]string{}, error(nil)
	for _, consumer := range slices.Sorted(maps.Keys(has)) {
		most, err := c.allowed(ctx, client, consumer)
		if err != nil { // the others would wait as long
			failed = err
			break
		}
		if beyond := has[consumer].Beyond(most); len(beyond) > 0 {
			above[consumer] = "it has " + list(has[consumer].Only(beyond)) + ", and the plugin allows " + list(most.Only(beyond))
		}
	}
	if ctx.Err() != nil {
		return false
	}
	c.found(client, failed)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client == client && failed == nil {
		c.above = above
	}
	return failed == nil
}

// list are amounts in words.
func list(a market.Amounts) string {
	var out []string
	for name, amount := range a.Resources() {
		out = append(out, amount.String()+" "+string(name))
	}
	slices.Sort(out)
	return cmp.Or(strings.Join(out, ", "), "none of it")
}

// consumers are those who have reservations here and how much they have or, not counting, all whom the Ledger knows.
func (c *ceiling) consumers(ctx context.Context, counting bool) (map[string]market.Amounts, error) {
	out := map[string]market.Amounts{}
	err := c.market.Read(ctx, func(s *market.State) {
		for _, r := range s.Of(c.cluster, 0) {
			if _, known := out[r.Consumer]; !known && r.Provider == c.cluster && (r.State.Counts() || !counting) {
				out[r.Consumer] = s.Promised(r.Consumer)
			}
		}
	})
	return out, err
}

// depart tells the plugin of consumers whose last reservation is gone, also of those whose went while nobody could tell it.
func (c *ceiling) depart(ctx context.Context, client *plugin.Client) {
	known, err := c.consumers(ctx, c.had != nil)
	if err != nil {
		return
	}
	if c.had == nil {
		c.had = map[string]bool{}
	}
	for consumer := range known {
		c.had[consumer] = true
	}
	has, err := c.consumers(ctx, true)
	if err != nil {
		return
	}
	for consumer := range c.had {
		if _, still := has[consumer]; still {
			continue
		}
		if err := client.RemoveCluster(ctx, consumer); err != nil {
			c.log.Info("the resource plugin was not told that a consumer has nothing here any more: will try again", "consumer", consumer, "error", err)
			return // with the next change, or when it is back
		}
		delete(c.had, consumer)
	}
}

// followLedger tells of each change in the Ledger.
func (c *ceiling) followLedger(ctx context.Context) {
	w, err := c.market.Watch(ctx, c.cluster, "", 0)
	if err != nil {
		return
	}
	defer w.Close()
	for err == nil {
		nudge(c.traded)
		_, _, err = w.Next(ctx)
	}
}

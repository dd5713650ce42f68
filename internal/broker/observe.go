package broker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

const (
	// longestStep is the time that the market may spend in one step before /livez fails. The longest
	// honest step is to load a large journal again. A busy market takes milliseconds.
	longestStep = 2 * time.Minute
	// summaryEvery is the shortest interval at which scrapes make the market count; summaryWait bounds the
	// wait for that.
	summaryEvery = time.Second
	summaryWait  = 200 * time.Millisecond
	// DefaultAuditEvery is the interval of the market's audit.
	DefaultAuditEvery = time.Minute
)

// observe serves metrics and probes.
func observe(ctx context.Context, l net.Listener, x *exchange.Exchange, s *server.Server, o Options) error {
	counted := &metrics{market: x}
	registry := prometheus.NewRegistry()
	registry.MustRegister(server.Metrics()...)
	registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), counted,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "bourse_ended_certificates_total",
			Help: "Calls with a certificate that had ended before its time: by a newer one, or by an operator.",
		}, func() float64 { return float64(s.EndedCertificates()) }))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/livez", alive(x, longestStep))
	tried := &disk{dir: o.Dir}
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { answerProbe(w, r, x, tried) })
	var all errgroup.Group
	all.Go(func() error { counted.keepAuditing(ctx, o); return nil })
	all.Go(func() error { return server.Serve(ctx, l, mux) })
	return all.Wait()
}

// alive reports whether the market makes progress, without asking it: it may be busy with many waiting
// callers, and a restart would not help them. It is not alive if it has ended, or has been in one step
// for longer than longestStep.
func alive(x *exchange.Exchange, most time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		switch busy := x.Busy(); {
		case x.Ended():
			http.Error(w, "the market has ended", http.StatusServiceUnavailable)
		case busy > most:
			http.Error(w, fmt.Sprintf("the market has been at one step for %s, which takes %s at most",
				busy.Round(time.Second), most), http.StatusServiceUnavailable)
		default:
			_, _ = w.Write([]byte("ok\n"))
		}
	}
}

const (
	// trialFile is the file in --dir that a trial of the disk writes, and trialSize its size in bytes.
	trialFile, trialSize = "trial", 256 << 10
	// trialLasts is for how long a trial counts: who may probe must not keep the disk busy.
	trialLasts = 5 * time.Second
)

// disk is the disk of --dir. A full disk ends the broker at its next commit, and it would start, and be ready, until
// the one after that.
type disk struct {
	dir string

	mu    sync.Mutex
	tried time.Time
	last  error
}

// try writes a file and removes it, if the last trial does not count any more.
func (d *disk) try() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.tried) < trialLasts {
		return d.last
	}
	path := filepath.Join(d.dir, trialFile)
	d.last = errors.Join(os.WriteFile(path, make([]byte, trialSize), 0o600), os.Remove(path))
	d.tried = time.Now()
	return d.last
}

// answerProbe asks the market itself, and tries the disk. If the market does not answer within 2 s, or the disk
// takes nothing, the broker is not ready.
func answerProbe(w http.ResponseWriter, r *http.Request, x *exchange.Exchange, d *disk) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := x.Read(ctx, func(*market.State) {}); err != nil {
		http.Error(w, "the market does not answer: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err := d.try(); err != nil {
		http.Error(w, "the disk takes nothing: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// metrics exports what the market last published and counted. A scrape does not wait for the market. If
// the market is busy, the scrape shows the last counts, and busySeconds shows for how long.
type metrics struct {
	market  *exchange.Exchange
	mu      sync.Mutex // one refresh at a time
	asked   time.Time  // the time of the newest request for a summary
	newest  atomic.Pointer[summary]
	audited atomic.Pointer[int]
	audits  atomic.Int64
}

// summary holds the counts that only the market's owner can make.
type summary struct {
	byState map[api.State]int
	members map[api.MemberState]int
	waiting int
	oldest  market.Time // the start of the longest wait; 0: no request waits
	memory  market.MemoryUse
}

// refresh makes the market count, unless it did so recently or is busy.
func (m *metrics) refresh() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.asked) < summaryEvery && m.newest.Load() != nil {
		return
	}
	m.asked = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), summaryWait)
	defer cancel()
	_ = m.market.Read(ctx, func(s *market.State) {
		next := &summary{byState: s.Count(), members: map[api.MemberState]int{}, memory: s.MemoryUse()}
		for _, member := range s.Members() {
			next.members[member.State]++
		}
		for _, r := range s.Waiting() {
			if next.waiting++; next.oldest == 0 || r.Since() < next.oldest {
				next.oldest = r.Since()
			}
		}
		m.newest.Store(next)
	})
}

// keepAuditing audits the market in intervals, until ctx ends. Most of the work is outside the market.
func (m *metrics) keepAuditing(ctx context.Context, o Options) {
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		if n, err := m.audit(ctx); err == nil && n > 0 {
			o.Log.Error("the market's sums differ from the sums recomputed from all reservations: this is a bug",
				"differences", n)
		}
	}, o.AuditEvery)
}

func (m *metrics) audit(ctx context.Context) (wrong int, err error) {
	var check func() int
	if err := m.market.Read(ctx, func(s *market.State) { check = s.Audit() }); err != nil {
		return 0, err
	}
	wrong = check()
	m.audited.Store(&wrong)
	m.audits.Add(1)
	return wrong, nil
}

// Describe implements prometheus.Collector. It describes nothing in advance: see Collect.
func (*metrics) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	send := func(kind prometheus.ValueType, name, help string, v float64, state ...string) {
		labels := []string{"state"}[:len(state)]
		desc := prometheus.NewDesc(name, help, labels, nil)
		out <- prometheus.MustNewConstMetric(desc, kind, v, state...)
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	m.refresh()
	if s := m.newest.Load(); s != nil {
		for _, state := range api.States {
			send(gauge, "bourse_reservations",
				"Reservations by state.", float64(s.byState[state]), string(state))
		}
		for state, n := range s.members {
			send(gauge, "bourse_members", "Member clusters by state.", float64(n), string(state))
		}
		longest := time.Duration(0)
		if s.oldest != 0 {
			longest = m.market.Now().Go().Sub(s.oldest.Go()).Truncate(time.Second)
		}
		send(gauge, "bourse_queue_waiting", "Requests that wait for capacity.", float64(s.waiting))
		send(gauge, "bourse_queue_oldest_seconds",
			"How long the oldest waiting request has waited.", longest.Seconds())
		send(gauge, "bourse_rejected_remembered",
			"Rejected requests that are remembered in memory.", float64(s.memory.Rejected))
		send(gauge, "bourse_member_largest_bytes",
			"About how much memory the reservations of the largest member take; "+
				"--max-bytes bounds it.", float64(s.memory.Largest))
		send(counter, "bourse_reservations_forgotten_early_total",
			"Ended reservations that were forgotten before their time, because their "+
				"consumer had more of them than the broker keeps.", float64(s.memory.Early))
	}
	if wrong := m.audited.Load(); wrong != nil {
		send(gauge, "bourse_market_imbalance",
			"Pools whose reserved amount differs from the sum over all reservations, "+
				"at the last audit. Must be 0.", float64(*wrong))
	}
	send(counter, "bourse_market_audits_total",
		"Audits of the market: one every --audit-every.", float64(m.audits.Load()))
	fresh, over := m.countClusters()
	send(gauge, "bourse_clusters_fresh", "Clusters whose lease is alive.", float64(fresh))
	send(gauge, "bourse_clusters_overcommitted",
		"Clusters with more reserved than they have.", float64(over))
	send(gauge, "bourse_market_busy_seconds",
		"For how long the market has been at its present step. It answers no call until the step is done.",
		m.market.Busy().Seconds())
	stats := m.market.Stats()
	send(counter, "bourse_journal_refused_total",
		"Batches that the journal refused, so that their commands were tried one by one.",
		float64(stats.Refused))
	send(counter, "bourse_journal_commits_total", "Commits to the journal.", float64(stats.Batches))
	send(counter, "bourse_journal_events_total", "Events in them.", float64(stats.Events))
	send(counter, "bourse_journal_commit_seconds_total",
		"Time spent in commits.", stats.Appending.Seconds())
	send(counter, "bourse_clock_jumps_total",
		"Jumps of the wall clock that were not followed.", float64(stats.Jumps))
}

// countClusters returns how many clusters have a live lease, and how many are overcommitted.
func (m *metrics) countClusters() (fresh, over int) {
	view, now := m.market.View(), m.market.Now()
	for slot := range view.Len() {
		l := view.At(slot)
		if l.Fresh(now) {
			fresh++
		}
		if slices.ContainsFunc(l.Pools, isOvercommitted) {
			over++
		}
	}
	return fresh, over
}

func isOvercommitted(p market.PoolListing) bool { return p.Available.Negative() }

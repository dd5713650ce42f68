package broker

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/internal/exchange"
	"github.com/bourse-dev/bourse/internal/market"
	"github.com/bourse-dev/bourse/internal/server"
)

// observe serves what operators' systems look at.
func observe(ctx context.Context, l net.Listener, x *exchange.Exchange, s *server.Server) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(server.Metrics()...)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), &metrics{market: x},
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "bourse_ended_certificates_total", Help: "Calls with a certificate that had ended before its time: by a newer one, or by an operator.",
		}, func() float64 { return float64(s.EndedCertificates()) }))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/livez", func(w http.ResponseWriter, r *http.Request) { answerProbe(w, r, x) })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, r *http.Request) { answerProbe(w, r, x) })
	return server.Serve(ctx, l, mux)
}

// answerProbe asks the market itself: a broker whose market does not answer is neither alive nor ready.
func answerProbe(w http.ResponseWriter, r *http.Request, x *exchange.Exchange) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	if err := x.Read(ctx, func(*market.State) {}); err != nil {
		http.Error(w, "the market does not answer: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	_, _ = w.Write([]byte("ok\n"))
}

// metrics are read from the market at each scrape.
type metrics struct{ market *exchange.Exchange }

var (
	reservations = prometheus.NewDesc("bourse_reservations", "Reservations by state.", []string{"state"}, nil)
	members      = prometheus.NewDesc("bourse_members", "Member clusters by state.", []string{"state"}, nil)
	waiting      = prometheus.NewDesc("bourse_queue_waiting", "Requests that wait for capacity.", nil, nil)
	oldest       = prometheus.NewDesc("bourse_queue_oldest_seconds", "How long the one that waits longest has waited.", nil, nil)
	fresh        = prometheus.NewDesc("bourse_clusters_fresh", "Clusters whose lease is alive.", nil, nil)
	overcommit   = prometheus.NewDesc("bourse_clusters_overcommitted", "Clusters of which more is reserved than they have.", nil, nil)
	imbalance    = prometheus.NewDesc("bourse_market_imbalance", "Pools whose reserved amount differs from the same recomputed from all reservations. Must be 0.", nil, nil)
	batches      = prometheus.NewDesc("bourse_journal_commits_total", "Commits to the journal.", nil, nil)
	events       = prometheus.NewDesc("bourse_journal_events_total", "Events in them.", nil, nil)
	appending    = prometheus.NewDesc("bourse_journal_commit_seconds_total", "Time spent in commits.", nil, nil)
	remembered   = prometheus.NewDesc("bourse_rejected_remembered", "Rejected requests that are remembered in memory.", nil, nil)
	largest      = prometheus.NewDesc("bourse_member_largest_bytes", "About how much memory the reservations of the one member take that has most; --max-bytes bounds it.", nil, nil)
	early        = prometheus.NewDesc("bourse_reservations_forgotten_early_total", "Reservations that were over and forgotten before their time, because of their consumer more was over than is kept.", nil, nil)
	jumps        = prometheus.NewDesc("bourse_clock_jumps_total", "Jumps of the wall clock that were not followed.", nil, nil)
)

// Describe implements prometheus.Collector.
func (*metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{reservations, members, waiting, oldest, fresh, overcommit, imbalance, batches, events, appending, remembered, largest, early, jumps} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.market.Read(ctx, func(s *market.State) {
		byState := s.Count()
		for _, state := range api.States {
			gauge(reservations, byState[state], string(state))
		}
		standing := map[api.MemberState]int{}
		for _, member := range s.Members() {
			standing[member.State]++
		}
		for state, n := range standing {
			gauge(members, n, string(state))
		}
		gauge(imbalance, s.Imbalance())
		kept := s.Kept()
		gauge(remembered, kept.Rejected)
		gauge(largest, int(kept.Largest))
		out <- prometheus.MustNewConstMetric(early, prometheus.CounterValue, float64(kept.Early))
		all, longest := s.Waiting(), time.Duration(0)
		for _, r := range all {
			longest = max(longest, m.market.Now().Go().Sub(r.Since().Go()))
		}
		gauge(waiting, len(all))
		gauge(oldest, int(longest.Seconds()))
	})
	view, now := m.market.View(), m.market.Now()
	alive, over := 0, 0
	for slot := range view.Len() {
		l := view.At(slot)
		if l.Fresh(now) {
			alive++
		}
		for _, p := range l.Pools {
			if p.Available.Negative() {
				over++
				break
			}
		}
	}
	gauge(fresh, alive)
	gauge(overcommit, over)
	stats := m.market.Stats()
	counter := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	counter(batches, float64(stats.Batches))
	counter(events, float64(stats.Events))
	counter(appending, stats.Appending.Seconds())
	counter(jumps, float64(stats.Jumps))
}

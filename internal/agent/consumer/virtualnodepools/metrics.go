package virtualnodepools

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/bourse-dev/bourse/api"
)

var (
	sizes = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bourse_vnp_resources",
		Help: "What a VirtualNodePool needs, has reserved and uses, by resource."}, []string{"pool", "kind", "resource"})
	inUse = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bourse_vnp_providers",
		Help: "Providers of a VirtualNodePool, by state."}, []string{"pool", "state"})
	pending = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "bourse_vnp_pending_pods",
		Help: "Pending pods of a VirtualNodePool's namespaces: reason Counted, or why they do not count."},
		[]string{"pool", "reason"})
)

func init() { ctrlmetrics.Registry.MustRegister(sizes, inUse, pending) }

// observed shows the status of a pool as metrics.
func observed(pool string, s *api.VirtualNodePoolStatus) {
	unobserve(pool)
	for kind, of := range map[string]api.Resources{"demand": s.Demand, "reserved": s.Reserved, "used": s.Used} {
		for name, q := range of {
			sizes.WithLabelValues(pool, kind, string(name)).Set(q.AsApproximateFloat64())
		}
	}
	for _, p := range s.Providers {
		inUse.WithLabelValues(pool, p.State).Inc()
	}
	pending.WithLabelValues(pool, "Counted").Set(float64(s.Pending.Counted))
	for _, not := range s.Pending.Not {
		pending.WithLabelValues(pool, not.Reason).Set(float64(not.Count))
	}
}

// unobserve removes the metrics of a pool.
func unobserve(pool string) {
	for _, v := range []*prometheus.GaugeVec{sizes, inUse, pending} {
		v.DeletePartialMatch(prometheus.Labels{"pool": pool})
	}
}

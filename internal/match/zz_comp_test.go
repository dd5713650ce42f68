package match_test

import ("testing"; "time"; "slices"; "fmt"; "github.com/bourse-dev/bourse/api"; "github.com/bourse-dev/bourse/internal/match"; "github.com/bourse-dev/bourse/internal/market")

func TestZComp(t *testing.T) {
	view := federation(t, 1000)
	s := market.New("")
	for i := range 1000 {
		c := lends("cpu", fmt.Sprint(64+i%97), "memory", "256Gi")
		put(t, s, fmt.Sprintf("cluster-%05d", i), c, 1)
	}
	all := s.Publish(nil)
	for _, k := range []struct{n string; v *market.View; at market.Time; r api.Request}{
		{"mixed", view, now, api.Request{}}, {"all fit", all, now, api.Request{}}, {"all stale", all, now+1e6, api.Request{}},
		{"none fits", all, now, api.Request{Resources: of("cpu", "1000", "memory", "8Gi")}},
		{"one need", all, now, api.Request{Resources: of("cpu", "4")}},
		{"pack", all, now, api.Request{Strategy: "pack"}},
	} {
		e := match.New()
		a := ask(t, e, k.r)
		var ds []time.Duration
		for range 3000 {
			s := time.Now()
			e.Decide(k.v, a, k.at)
			ds = append(ds, time.Since(s))
		}
		slices.Sort(ds)
		t.Log(k.n, "min", ds[0], "p10", ds[len(ds)/10], "p50", ds[len(ds)/2])
	}
}

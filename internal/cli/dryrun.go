package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client/cluster"
	"github.com/bourse-dev/bourse/internal/agent/operations/install"
	"github.com/bourse-dev/bourse/internal/explain"
	"github.com/bourse-dev/bourse/internal/liqo/plan"
	"github.com/bourse-dev/bourse/internal/market"
)

// dryRun explains what reserve would do, and prints the objects.
func (sh *shell) dryRun(ctx context.Context, c *cluster.Client, w *wish, e api.Evaluation) error {
	var none error
	if e.Decision.Chosen == "" {
		none = explain.NoCandidate(e.Decision, w.Request.Resources, " now")
	}
	if sh.encodes() {
		return cmp.Or(sh.encode(e), none)
	}
	rows := [][]string{{"CLUSTER", "SCORE", "ELIMINATED BY", "WHY"}}
	for i, v := range e.Clusters {
		score := ""
		if v.Filter == "" {
			score = explain.Points(v.Score)
			if v.Bought != nil {
				v.Message = explain.Purchase(*v.Bought)
			}
			if none == nil && i < max(e.Decision.Parts, 1) {
				v.Message = strings.TrimSpace(v.Message + " <- this one")
			}
		}
		rows = append(rows, []string{v.Cluster, score, v.Filter, v.Message})
	}
	if len(e.Clusters) > 0 {
		if err := sh.table(rows); err != nil {
			return err
		}
	}
	writeLines(sh.out, explain.Decision(e.Decision, explain.Part(w.Request.Resources, max(e.Decision.Parts, 1))).Lines()...)
	if none != nil {
		return none
	}
	status, err := c.Status(ctx)
	if err != nil {
		return err
	}
	size, err := boughtSize(ctx, c, w.Request, e.Decision.Top[0])
	if err != nil {
		return err
	}
	switch n := e.Decision.Parts; {
	case size != nil:
	case n > 1:
		fmt.Fprintf(sh.out, "the request has %d parts; these are the objects of the first one:\n", n)
		size = explain.Part(w.Request.Resources, n)
	default:
		size = w.Request.Resources
	}
	return sh.objects(w, size, status.Cluster, e.Decision.Top[0].Cluster)
}

// boughtSize returns the resources that a request would buy. It is nil if the request buys nothing.
func boughtSize(ctx context.Context, c *cluster.Client, r api.Request, chosen api.Scored) (api.Resources, error) {
	path, units := "", int64(0)
	switch p := r.Purchase; {
	case p != nil:
		path, units = p.Seller+"/"+p.Offer+"/"+p.Plan, p.Units
	case chosen.Bought != nil:
		path, units = chosen.Bought.Plan, chosen.Bought.Units
	default:
		return nil, nil
	}
	_, plan, err := offered(ctx, c, path)
	if err != nil {
		return nil, err
	}
	size := api.Resources{}
	for name, q := range plan.Resources {
		q.Mul(units)
		size[name] = q
	}
	return size, nil
}

// objects prints each object that reserve would create, on both sides.
func (sh *shell) objects(w *wish, part api.Resources, consumer, provider string) error {
	r := w.Request
	pool := cmp.Or(r.Pool, api.GeneralPool)
	until := time.Now().Add(api.DurationOf(r.Duration)).UTC().Truncate(time.Second)
	instruction := api.Instruction{
		Reservation: "<reservation>", Generation: 1, Consumer: consumer, Provider: provider, Pool: pool,
		Slice: market.SliceName(consumer, provider, pool), Resources: part, Until: metav1.NewTime(until),
	}
	meta := metav1.ObjectMeta{Name: "<reservation>", Namespace: w.Namespace}
	there := metav1.ObjectMeta{Name: "<reservation>", Namespace: api.Namespace}
	steps := []plan.Step{
		{Cluster: consumer + " (yours)", Object: &api.ResourceRequest{
			ObjectMeta: metav1.ObjectMeta{Name: cmp.Or(w.Name, "request-<random>"), Namespace: w.Namespace},
			Spec:       api.ResourceRequestSpec{Request: r}}},
		{Cluster: consumer + " (yours)", By: ", by your agent",
			Object: &api.ReservationInstruction{ObjectMeta: meta, Spec: instruction}},
		{Cluster: provider, By: ", by its agent, if its gate accepts",
			Object: &api.ProviderInstruction{ObjectMeta: there, Spec: instruction}},
	}
	for _, step := range plan.Objects(plan.Reservation{
		Consumer: consumer, Provider: provider, Slice: instruction.Slice,
		Resources: part, Offload: w.Offload, Network: r.Network,
	}) {
		step.By = ", " + step.By + ", if both clusters have Liqo"
		steps = append(steps, step)
	}
	for _, step := range steps {
		if err := sh.writeObject(step.Object, fmt.Sprintf("# in %s%s\n", step.Cluster, step.By)); err != nil {
			return err
		}
	}
	return nil
}

// writeObject prints an object as a user applies it, below a comment.
func (sh *shell) writeObject(o kube.Object, comment string) error {
	fields, err := install.Manifest(o)
	if err != nil {
		return err
	}
	data, err := yaml.Marshal(fields.Object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sh.out, "---\n%s%s", comment, data)
	return err
}

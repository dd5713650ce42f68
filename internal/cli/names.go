package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/bourse-dev/bourse/api"
	"github.com/bourse-dev/bourse/client"
	"github.com/bourse-dev/bourse/client/cluster"
)

// findRequest returns the ResourceRequest that a user means: by NAME, NAMESPACE/NAME or the ID of
// its reservation. Errors: NotFound; Conflict if several namespaces have a request of that name.
func findRequest(ctx context.Context, c *cluster.Client, name string) (client.RequestStatus, error) {
	all, err := c.Requests(ctx)
	if err != nil {
		return client.RequestStatus{}, err
	}
	var found []client.RequestStatus
	for _, r := range all {
		_, short, _ := strings.Cut(r.ID, "/")
		isPart := func(p api.RequestPart) bool { return p.Reservation == name }
		if name == r.ID || name == short || name == r.Payload.Status.Reservation ||
			slices.ContainsFunc(r.Payload.Status.Parts, isPart) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return client.RequestStatus{}, api.Errorf(api.CodeNotFound,
			"%.80q is not the name of a ResourceRequest of this cluster, and not the ID of a reservation", name).
			FixBy("see", "bourse", "reservations", "--all")
	case 1:
		return found[0], nil
	}
	return client.RequestStatus{}, api.Errorf(api.CodeConflict,
		"%s are both named %s", strings.Join(ids(found), " and "), name).
		Fix("give the namespace, too: NAMESPACE/%s", name)
}

// lookInto has a command look into the namespace of the requests that a user names as NAMESPACE/NAME, unless a flag names
// another.
func (sh *shell) lookInto(names ...string) {
	if way, err := sh.findWay().choose(); err != nil || !way.asUser || sh.namespace != "" || sh.allNamespaces {
		return
	}
	all := map[string]bool{}
	for _, name := range names {
		namespace, _, has := strings.Cut(name, "/")
		if !has {
			return // it is in the namespace of the context
		}
		all[namespace] = true
	}
	if len(all) == 1 {
		sh.namespace = slices.Collect(maps.Keys(all))[0]
	}
}

// ofReservations runs a command about the reservations that its arguments name, as the user of the kubeconfig.
func (sh *shell) ofReservations(run action[*cluster.Client]) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		sh.lookInto(args...)
		return sh.asUser(run)(cmd, args)
	}
}

// reservationID returns the ID of the reservation that a user means: by ID, or by the name of its request, also after
// that is deleted.
func reservationID(ctx context.Context, c *cluster.Client, name string) (string, error) {
	r, err := findRequest(ctx, c, name)
	switch {
	case api.CodeOf(err) == api.CodeNotFound && err != nil, errors.Is(err, cluster.ErrNoKubeconfig):
		return madeByDeleted(ctx, c, name)
	case err != nil:
		return "", err
	case r.Payload.Status.Reservation == "":
		namespace, short, _ := strings.Cut(r.ID, "/")
		return "", api.Errorf(api.CodeConflict, "request %s has no reservation: %s",
			r.ID, api.WithoutCode(r.Payload.Status.Message)).
			Fix("to delete it: kubectl -n %s delete resourcerequest %s", namespace, short)
	}
	return r.Payload.Status.Reservation, nil
}

// madeByDeleted returns the ID of the newest reservation that a ResourceRequest of that name made, NAME or
// NAMESPACE/NAME. Where there is none it returns the name: it is the ID of a reservation that no request here made,
// of a consumer or lost. The call that gets it says if the agent cannot answer. Errors: Conflict if requests of several
// namespaces had that name.
func madeByDeleted(ctx context.Context, c *cluster.Client, name string) (string, error) {
	all, _ := c.Reservations(ctx)
	var newest client.Reservation
	objects := map[string]bool{}
	for _, r := range all {
		_, short, _ := strings.Cut(r.Payload.Object, "/")
		if r.ID == name {
			return name, nil
		}
		if r.Payload.Object == "" || name != r.Payload.Object && name != short {
			continue
		}
		objects[r.Payload.Object] = true
		if newest.Payload.Created.Before(&r.Payload.Created) {
			newest = r
		}
	}
	if len(objects) > 1 {
		return "", api.Errorf(api.CodeConflict, "%s were both named %s",
			strings.Join(slices.Sorted(maps.Keys(objects)), " and "), name).
			Fix("give the namespace, too: NAMESPACE/%s", name)
	}
	return cmp.Or(newest.ID, name), nil
}

// reservationNames returns what commands accept for the reservations of requests that are not over.
func reservationNames(ctx context.Context, c *cluster.Client) ([]string, error) {
	reservations, err := c.Reservations(ctx)
	reservations = slices.DeleteFunc(reservations, func(r client.Reservation) bool { return r.Payload.State.Over() })
	names := ids(reservations)
	requests, _ := c.Requests(ctx)
	for _, r := range requests {
		if _, short, _ := strings.Cut(r.ID, "/"); slices.Contains(names, r.Payload.Status.Reservation) {
			names = append(names, short)
		}
	}
	return names, err
}

// checkClusters warns of names that no cluster known here has. With a fix it refuses them. Errors:
// NotFound with flag and fix; Invalid for what no cluster can be named.
func (sh *shell) checkClusters(ctx context.Context, c *cluster.Client, flag, fix string, names ...string) error {
	clusters, err := c.Clusters(ctx)
	peers, otherErr := c.Peers(ctx)
	if err != nil || otherErr != nil || len(names) == 0 {
		return nil // which clusters there are is not known now
	}
	known := append(ids(clusters), ids(peers)...)
	for _, name := range names {
		if name == "" || slices.Contains(known, name) {
			continue
		}
		if len(validation.IsDNS1123Label(name)) > 0 {
			return api.Errorf(api.CodeInvalid, "%.80q is not a cluster ID", name).At(flag).FixBy("see", "bourse", "clusters")
		}
		text := fmt.Sprintf("no cluster %q is visible to you", name)
		if alike := similar(name, known); len(alike) > 0 {
			text += "; did you mean " + strings.Join(alike, " or ") + "?"
		}
		if fix != "" {
			return api.Errorf(api.CodeNotFound, "%s", text).At(flag).Fix("%s", fix)
		}
		if flag != "" {
			text = flag + ": " + text
		}
		fmt.Fprintf(sh.progress, "warning: %s\n", text)
	}
	return nil
}

// checkResources warns of resources that no visible cluster shares.
func (sh *shell) checkResources(ctx context.Context, c *cluster.Client, flag string, resources api.Resources) {
	clusters, err := c.Clusters(ctx)
	var known []string
	for _, cluster := range clusters {
		for _, pool := range cluster.Payload.Pools {
			for name := range pool.Allocatable {
				known = append(known, string(name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(resources)) {
		if err != nil || len(known) == 0 || slices.Contains(known, string(name)) {
			continue
		}
		text := fmt.Sprintf("warning: %s: no visible cluster shares %s", flag, name)
		alike := similar(string(name), known)
		for _, full := range known {
			if strings.HasSuffix(full, "/"+string(name)) {
				alike = append(alike, full)
			}
		}
		if len(alike) > 0 {
			text += "; did you mean " + strings.Join(slices.Compact(slices.Sorted(slices.Values(alike))), " or ") + "?"
		}
		fmt.Fprintln(sh.progress, text)
	}
}

// similar returns the known names that differ from name by a third of its letters, two at most. Commands find their
// own names in the same way.
func similar(name string, known []string) []string {
	names := &cobra.Command{SuggestionsMinimumDistance: max(1, min(2, (len(name)+1)/3))}
	for _, word := range slices.Compact(slices.Sorted(slices.Values(known))) {
		names.AddCommand(&cobra.Command{Use: word, Run: func(*cobra.Command, []string) {}})
	}
	return names.SuggestionsFor(name)
}

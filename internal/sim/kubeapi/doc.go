// Package kubeapi is a Kubernetes API server in memory: good enough that the
// real agent (controller-runtime, informers, leader election, server-side
// apply) runs on it unchanged, and light enough that hundreds live in one
// process.
//
//	api := kubeapi.New(kubeapi.Options{Types: []kubeapi.Type{{
//		GroupVersion: schema.GroupVersion{Group: "bourse.dev", Version: "v1alpha1"},
//		Kind:         "Advertisement", Resource: "advertisements", Namespaced: true, Status: true,
//	}}})
//	client, err := kubernetes.NewForConfig(api.Config()) // no socket
//	http.Serve(listener, api.Handler())                  // or with one, for kubectl
//
// What is the same as on a real server is what kubeapitest.Run checks: it
// passes on both, and only that may be relied on. In short: optimistic
// concurrency, generation, no-op writes, status kept apart from spec, JSON,
// merge and strategic patches, server-side apply with field ownership and
// conflicts (the library that the real server uses), finalizers,
// preconditions, selectors, ordered watches that resume, bookmarks, streamed
// lists (WatchList), 410 for what is no longer remembered, and Status errors.
//
// What is simpler here:
//
//   - No schemas for the types given: nothing is validated but metadata,
//     nothing pruned or defaulted. For apply, their lists are replaced whole,
//     except status.conditions (merged by type), finalizers and
//     ownerReferences.
//   - Of built-in types the shape is checked, the content hardly. There is no
//     admission, scheduler, kubelet or controller. Pods begin as Pending and are
//     deleted at once: no graceful termination.
//   - Ownership of fields is tracked from the first apply on, without times.
//   - A namespace need not exist. Deleting one deletes what is in it, at once.
//   - Garbage is collected in the same step as its last owner, however the
//     deletion is to propagate.
//   - A write to /status changes the status alone; on a real server labels of
//     some built-in types get through.
//   - Lists are never split and always of now: limit and what a list says of
//     resourceVersion are ignored.
//   - Events of the core and of the events.k8s.io API are two sets.
//   - There is no deletion of a collection, and there are no answers of metadata
//     alone.
//   - fieldValidation is ignored: a field that nobody knows or that stands twice
//     is no error. Without schemas nobody knows the fields of the types given.
//   - Each group has one version. There are no tables: kubectl prints names and
//     ages, and applies with --validate=false.
//   - There are no roles. A user of HandlerFor may do everything, in the cluster
//     or in one namespace; everybody else is an admin.
package kubeapi

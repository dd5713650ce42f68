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
// conflicts, finalizers, preconditions, deletion of collections, selectors,
// ordered watches that resume, bookmarks, streamed lists (WatchList), 410 for
// what is no longer remembered, Status errors, tables and metadata alone, and
// one set of Events for both of their APIs. A type that [CustomType] makes of a
// CustomResourceDefinition has its fields, defaults, bounds and columns. For
// apply, fields and patches these are the libraries that the real server uses.
//
// What is simpler here:
//
//   - Rules in CEL and admission policies are not evaluated. There is no
//     admission, scheduler, kubelet or controller.
//   - An update is checked whole. A real server lets what is unchanged pass, also
//     if the schema forbids it by now.
//   - Of built-in types the shape is checked, the content hardly. fieldValidation
//     is ignored for them, they have few columns, and kubectl does not explain
//     them. Pods begin as Pending and are deleted at once: no graceful
//     termination.
//   - A type without a definition may have any fields. For apply, its lists are
//     replaced whole, except status.conditions (merged by type), finalizers and
//     ownerReferences.
//   - Ownership of fields is tracked from the first apply on, without times.
//   - A namespace need not exist. Deleting one deletes what is in it, at once.
//   - Garbage is collected in the same step as its last owner, however the
//     deletion is to propagate.
//   - A write to /status changes the status alone; on a real server labels of
//     some built-in types get through.
//   - Lists are never split and always of now: limit and what a list says of
//     resourceVersion are ignored.
//   - A JSON patch of an Event names the fields of the core's Events.
//   - Each group has one version, and answers are always JSON.
//   - There are no roles. A user of [API.HandlerFor] may do everything, in the
//     cluster or in one namespace; everybody else is an admin.
package kubeapi

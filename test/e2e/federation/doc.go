// Package federation runs a whole federation on real Kubernetes clusters: the clusters of package
// lab, and the real binary as a broker and as the agents of each cluster, each a process of its
// own.
//
//	l, err := lab.Start(ctx, lab.Options{})
//	f, err := federation.Start(ctx, l, rome, milan, paris)   // each a *federation.Member
//	rome.Objects.Create(ctx, &api.ResourceRequest{...})      // what its people do with kubectl
//	rome.People().Clusters(ctx)                              // what they do with bourse
//	f.Broker.Kill()                                          // SIGKILL, as a machine dies
//	err = f.StartBroker(ctx)                                 // with the folder and the address that it had
//
// An agent reaches its cluster as the ServiceAccount of charts/bourse-agent, with the rights that are
// granted there and no others. `make lab` is such a federation for people to use; package e2e tests
// one.
package federation

// Package plugin asks the resource plugins that were written for Liqo 0.5 to 0.10 how much a consumer may have.
//
// Such a plugin is a gRPC server, without TLS and without authentication, of the service `resource_reader` that has no
// package. Liqo 1 asks none any more; here it is a ceiling of what is lent. Three dialects exist, which differ in one answer:
//
//	ReadResources(cluster)   → 0.5:        {map<string, string> resources = 1}
//	                           0.6 to 0.8: {map<string, Quantity> resources = 1}, Quantity {string string = 1}
//	                           0.9, 0.10:  {repeated {map<string, Quantity> resources = 1; string pool_name = 2; string pool_prefix = 3} = 1}
//	RemoveCluster(cluster)   → {}
//	Subscribe({})            → stream of cluster; an empty one is every cluster, and so is all that 0.5 says
//
// where cluster is {string = 1}, whatever each calls it. On the wire no answer of one dialect can be taken for one of another,
// since neither the name of a resource nor a quantity begins with a control character: so one decoder reads all, and nobody has
// to say which a plugin speaks. It is written by hand, because messages of one name and different shapes cannot be generated
// into one program.
package plugin

// Package liqo tests Bourse on the real Liqo: reservations become virtual nodes of exactly the
// reserved size, pods run on the provider, and a release leaves nothing behind. Three clusters with
// Liqo's own daemons and KWOK's nodes, the real broker, an agent in each as its ServiceAccount with
// the rights of config/ alone.
package liqo

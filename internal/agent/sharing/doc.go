// Package sharing tells others what this cluster shares.
//
// The [Advertiser] measures the cluster, puts the measurement into the gate's books, and sends it with the
// cluster's signed card to every broker: soon after each change, and otherwise at an interval, as proof of
// life.
package sharing

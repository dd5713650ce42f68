// Package sharing tells others what this cluster shares.
//
// The [Policy] is the controller of the SharingPolicy: it checks the object and holds what is in force. The
// [Advertiser] measures the cluster, puts the measurement into the gate's books, and sends it with the
// cluster's signed card to every broker: soon after each change, and otherwise at an interval, as proof of
// life. It also writes the Advertisement, which shows users what was sent and what the doctor found.
//
// Start with [Advertiser.Run]. Call [Policy.Load] and [Advertiser.Begin] before anything asks the gate.
package sharing

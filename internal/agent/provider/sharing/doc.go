// Package sharing publishes what this cluster shares.
//
// The [Policy] is the controller of the SharingPolicy: it checks the object and holds what is in force. The
// [Advertiser] measures the cluster and puts the measurement into the gate's books. It sends the measurement to
// each broker, with the cluster's signed card, and names only the consumers that this broker knows. It does so
// soon after each change, and otherwise at an interval, as proof of life. It also writes the Advertisement,
// which shows users what was sent and what the doctor found.
//
// Start with [Advertiser.Run]. Call [Policy.Load] and [Advertiser.Begin] before anything asks the gate.
package sharing

// Package transporttest is what tests of transports and of those who use them share: [Run], the
// suite that every transport.Broker passes; [Broker], one that says what a test lets it say, lies
// included; and [Party], a cluster that signs; [Deal], a reservation as an honest broker shows it;
// [Clock], which a test moves.
package transporttest

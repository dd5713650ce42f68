// Package robustness runs the real bourse binary and does to it what the world does: kills it, puts its
// journal back, damages its files, stops its clock, takes its clusters away. docs/robustness.md says what is
// guaranteed and which test here holds it.
package robustness

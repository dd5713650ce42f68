//go:build race

package raced

// Detector says that the race detector examines this program.
const Detector = true

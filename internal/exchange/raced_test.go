//go:build race

package exchange_test

// raced says whether the race detector looks.
const raced = true

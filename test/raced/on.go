//go:build race

package raced

const detector = true

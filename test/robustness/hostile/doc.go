// Package hostile tests that members who send the largest of everything stay within their bounds.
// It is a package of its own because it measures the memory of its process.
package hostile

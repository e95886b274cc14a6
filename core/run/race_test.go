//go:build race

package run

// raced: the race detector watches, in child processes as well.
const raced = true

//go:build race

package wasm

// shadow is what the race detector takes for each byte of memory that it watches.
const shadow = 4

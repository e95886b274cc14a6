// Package binary reads, changes and writes WASM modules, as far as the host needs
// that to run them well: to count what a guest computes, and to get hold of the
// state that its start leaves.
//
// It knows the instructions of WebAssembly 2.0 and tail calls. A module that uses
// anything else is refused by [Parse] or [Module.Meter], never changed by guess.
// Modules are not validated: a module that was valid is valid afterwards, of
// another one only that reading it ends with an error or a module that a
// compiler refuses.
package binary

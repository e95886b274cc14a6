// Package toolserver runs commands and handles files inside a sandbox for a host
// that speaks to it over a stream of bytes: a [Server] inside, a [Client] outside.
// Every driver's sandbox has one as its process 1, so that a command behaves the
// same wherever it runs.
//
// The protocol is binary, so that output of any bytes passes and the server stays
// small. A frame is
//
//	length uint32 | id uint32 | kind uint8 | body
//
// in big-endian order, length counting what follows it. A body is a fixed sequence
// of unsigned varints, and of strings and lists with their length in front. The
// client sends requests, the server one answer to each, in any order. The answer to
// a command is one frame too, with the output, its true length and the exit code,
// so that a stream that ends early is never taken for a command that wrote little.
//
// Where a stream may be cut and replaced, the client asks again, with the same ids,
// for all that it still awaits. The server carries a command or a write out once
// per id, and keeps its answer until the client has said that it came.
//
// The server's part imports as little as it can: see package first of the local driver.
package toolserver

// Protocol is the version of what frames contain. Where the two ends may be of
// different builds they compare it.
const Protocol = 1

// Threads is the number of threads that a server needs at most. They are started
// before the first command, because none can be started once commands have used up
// the process limit, and a Go program dies where it cannot. Whoever limits the
// sandbox's processes adds them.
const Threads = 8

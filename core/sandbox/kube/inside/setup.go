// Package inside is what the kube driver runs in its pods: one program that copies
// itself into a pod's volume, is process 1 of the sandbox's container, joins a
// stream of the cluster to it, and tries the network.
package inside

import (
	"github.com/valence-rl/valence/core/sandbox/toolserver"
	"github.com/valence-rl/valence/sdk/wire"
)

// Where the program lies in a pod, and what it is told to do there.
const (
	Dir     = "/.valence"
	Program = Dir + "/toolserver"
	// Source is where it lies in the image of the tools.
	Source = "/usr/local/bin/valence-toolserver"

	Copy   = "copy"   // to Program
	Serve  = "serve"  // as process 1
	Attach = "attach" // the standard streams to it
	Dial   = "dial"   // NETWORK/ADDRESS...: print those that can be reached
)

// Setup is the first request to a server.
type Setup struct {
	Dir     string // where the workspace is, or is to be; "": where the image starts commands, or at DefaultDir if that is the root
	Files   []wire.File
	Patches []string // of the files and of what the image has in Dir
}

// DefaultDir is where a workspace is that nobody placed.
const DefaultDir = "/workspace"

// Encode appends s to e.
func (s *Setup) Encode(e *toolserver.Encoder) {
	e.String(s.Dir)
	e.Uint(uint64(len(s.Files)))
	for _, f := range s.Files {
		e.String(f.Path)
		e.Bytes(f.Data)
		e.Bool(f.Exec)
	}
	e.Strings(s.Patches)
}

// Decode takes s off d.
func (s *Setup) Decode(d *toolserver.Decoder) {
	s.Dir = d.String()
	for range d.Count() {
		s.Files = append(s.Files, wire.File{Path: d.String(), Data: d.Bytes(), Exec: d.Bool()})
	}
	s.Patches = d.Strings()
}

// Hello answers it.
type Hello struct {
	Protocol uint64
	Env      []string // of the image
	Dir      string   // where the workspace is
	Refused  string   // what is wrong with the workspace; "": nothing
	API      string   // address of the cluster's API as pods see it; "" if they do not
}

// Encode appends h to e.
func (h *Hello) Encode(e *toolserver.Encoder) {
	e.Uint(h.Protocol)
	e.Strings(h.Env)
	e.String(h.Dir)
	e.String(h.Refused)
	e.String(h.API)
}

// Decode takes h off d.
func (h *Hello) Decode(d *toolserver.Decoder) {
	h.Protocol = d.Uint()
	h.Env = d.Strings()
	h.Dir = d.String()
	h.Refused = d.String()
	h.API = d.String()
}

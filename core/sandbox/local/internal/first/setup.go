package first

import (
	"fmt"

	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// Setup is what the server needs to make its surroundings.
type Setup struct {
	Base     string           // any directory that the sandbox's user can reach; the scratch file system covers it
	Disk     uint64           // size of the scratch file system in bytes
	Inodes   uint64           // its number of files
	Binds    []Bind           // of the host, read-only
	Lowers   []string         // paths of the folders under what is written, the topmost first; "" where one comes as an open tree
	Image    bool             // they are the whole root, and Dir is in them; else they are the workspace's files
	User     *toolserver.User // whom commands run as; nil: root
	Links    []string         // pairs: name in the root, target
	Files    []string         // pairs: name in the root, contents
	Dir      string           // where the workspace appears
	Filter   []byte           // assembled seccomp program
	Proc     bool             // mount a fresh /proc; else bind the host's
	MaxData  uint64           // RLIMIT_DATA of every command; 0: none
	MaxProcs uint64           // RLIMIT_NPROC; 0: none
	Scratch  string           // directory that takes the place of the scratch file system; "": one in memory
	Given    bool             // it comes as a tree, after all others
	Bare     bool             // without namespaces: Dir, Base and Lower are directories of the host, and commands may use nothing but them and the binds
}

// limits is what a shell has to say before it runs a command.
func (s *Setup) limits() string {
	var out string
	if s.MaxData > 0 {
		out += fmt.Sprintf("ulimit -d %d; ", s.MaxData>>10)
	}
	if s.Bare || s.Scratch != "" {
		out += fmt.Sprintf("ulimit -f %d; ", s.Disk/512)
	}
	return out
}

// Bind is a directory or file of the host that the sandbox sees. Its tree is
// either handed over as an open descriptor, in the order of the list from
// firstTreeFD on, or opened by the server at Path.
type Bind struct {
	Path   string // on the host
	Target string // in the sandbox
	File   bool   // it is a file
	Tree   bool   // it comes as a descriptor
}

// Encode appends s to e.
func (s *Setup) Encode(e *toolserver.Encoder) {
	e.String(s.Base)
	e.Uint(s.Disk)
	e.Uint(s.Inodes)
	e.Uint(uint64(len(s.Binds)))
	for _, b := range s.Binds {
		e.String(b.Path)
		e.String(b.Target)
		e.Bool(b.File)
		e.Bool(b.Tree)
	}
	e.Strings(s.Lowers)
	e.Bool(s.Image)
	e.Bool(s.User != nil)
	if u := s.User; u != nil {
		e.Uint(uint64(u.UID))
		e.Uint(uint64(u.GID))
		e.Uint(uint64(len(u.Groups)))
		for _, g := range u.Groups {
			e.Uint(uint64(g))
		}
	}
	e.Strings(s.Links)
	e.Strings(s.Files)
	e.String(s.Dir)
	e.Bytes(s.Filter)
	e.Bool(s.Proc)
	e.Uint(s.MaxData)
	e.Uint(s.MaxProcs)
	e.Bool(s.Bare)
	e.String(s.Scratch)
	e.Bool(s.Given)
}

// Decode takes s off d.
func (s *Setup) Decode(d *toolserver.Decoder) {
	s.Base = d.String()
	s.Disk = d.Uint()
	s.Inodes = d.Uint()
	for range d.Count() {
		s.Binds = append(s.Binds, Bind{Path: d.String(), Target: d.String(), File: d.Bool(), Tree: d.Bool()})
	}
	s.Lowers = d.Strings()
	s.Image = d.Bool()
	if d.Bool() {
		s.User = &toolserver.User{UID: uint32(d.Uint()), GID: uint32(d.Uint())}
		for range d.Count() {
			s.User.Groups = append(s.User.Groups, uint32(d.Uint()))
		}
	}
	s.Links = d.Strings()
	s.Files = d.Strings()
	s.Dir = d.String()
	s.Filter = d.Bytes()
	s.Proc = d.Bool()
	s.MaxData = d.Uint()
	s.MaxProcs = d.Uint()
	s.Bare = d.Bool()
	s.Scratch = d.String()
	s.Given = d.Bool()
}

package image

import (
	"path"
	"strings"
)

// What the names of whiteouts begin with.
const (
	whiteoutPrefix = ".wh."
	auxPrefix      = ".wh..wh." // further marks, of which one means something
	opaqueName     = ".wh..wh..opq"
)

// cleanName gives the path of an entry relative to the root, "." for the root itself.
// A name that leads out of the root is refused, also where it would come back.
func cleanName(name string, longest int) (string, error) {
	switch {
	case name == "":
		return "", refuse(Malformed, "an entry has no name")
	case strings.ContainsRune(name, 0):
		return "", refuse(Unsafe, "%q: its name has a zero byte", name)
	case len(name) > longest:
		return "", refuse(TooLarge, "%.60q…: its name has %d bytes, at most %d are taken", name, len(name), longest)
	case strings.Trim(name, "/") == "":
		return ".", nil
	case name[0] == '/':
		return "", refuse(Unsafe, "%q: its name is absolute", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return "", refuse(Unsafe, "%q: its name leads upwards", name)
		}
		if len(part) > 255 {
			return "", refuse(TooLarge, "%.60q…: a part of its name has %d bytes, at most 255 are taken", name, len(part))
		}
	}
	return path.Clean(name), nil
}

// whiteout is what a name says about layers below.
type whiteout int

const (
	plain   whiteout = iota // nothing
	hides                   // the path that comes with it is not there
	opaque                  // nothing of the folder that comes with it is there
	ignored                 // a mark without a meaning for us
)

// readWhiteout tells what a clean name means, and for which path.
func readWhiteout(name string) (whiteout, string, error) {
	dir, base := path.Split(name)
	for part := range strings.SplitSeq(strings.TrimSuffix(dir, "/"), "/") {
		if strings.HasPrefix(part, auxPrefix) {
			return ignored, "", nil
		}
		if strings.HasPrefix(part, whiteoutPrefix) {
			return plain, "", refuse(Malformed, "%q: a whiteout is no folder", name)
		}
	}
	dir = path.Clean(dir)
	if base == opaqueName {
		return opaque, dir, nil
	}
	if strings.HasPrefix(base, auxPrefix) {
		return ignored, "", nil
	}
	target, is := strings.CutPrefix(base, whiteoutPrefix)
	switch {
	case !is:
		return plain, name, nil
	case target == "", target == ".", target == "..":
		return plain, "", refuse(Unsafe, "%q: a whiteout of nothing", name)
	}
	return hides, path.Join(dir, target), nil
}

// within tells whether p is dir or in it.
func within(p, dir string) bool { return dir == "." || p == dir || strings.HasPrefix(p, dir+"/") }

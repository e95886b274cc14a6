package sdk

import (
	"path"
	"strings"
)

// Collects says whether a change to path p is part of the output of a task with
// these globs: `*` stays within a folder, a glob that ends in /** matches everything
// below, and no globs collect everything.
func Collects(globs []string, p string) bool {
	for _, g := range globs {
		if below, ok := strings.CutSuffix(g, "/**"); ok {
			if strings.HasPrefix(p, below+"/") {
				return true
			}
			continue
		}
		if ok, err := path.Match(g, p); err == nil && ok {
			return true
		}
	}
	return len(globs) == 0
}

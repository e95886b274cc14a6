package image

import "strings"

// Path tells whether a reference is one of this machine, "tar:", "oci:" or "dir:", and
// gives the path, which begins with "/" or "." as no tag does. What is there is found out by looking; the words are for the reader.
func Path(reference string) (path string, is bool) {
	for _, scheme := range []string{"tar:", "oci:", "dir:"} {
		if p, ok := strings.CutPrefix(reference, scheme); ok && (strings.HasPrefix(p, "/") || strings.HasPrefix(p, ".")) {
			return p, true
		}
	}
	return "", false
}

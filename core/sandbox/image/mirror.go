package image

import (
	"fmt"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// readMirrors checks mirrors and gives them by the registry's host as parsed
// references have it.
func readMirrors(m map[string][]string) (map[string][]string, error) {
	all := map[string][]string{}
	for host, mirrors := range m {
		r, err := name.NewRegistry(host, name.StrictValidation)
		if err != nil {
			return nil, err
		}
		for _, mirror := range mirrors {
			at, _, _ := strings.Cut(mirror, "/")
			if at != "localhost" && !strings.ContainsAny(at, ".:") {
				return nil, fmt.Errorf("%q for %q begins with no host", mirror, host)
			}
			if _, err := name.NewRepository(path.Join(mirror, "x"), name.StrictValidation); err != nil {
				return nil, err
			}
		}
		all[r.RegistryStr()] = mirrors
	}
	return all, nil
}

// repositories are where ref may be had, the mirrors first.
func repositories(ref name.Reference, mirrors map[string][]string) ([]name.Repository, error) {
	origin := ref.Context()
	var all []name.Repository
	for _, m := range mirrors[origin.RegistryStr()] {
		r, err := name.NewRepository(path.Join(m, origin.RepositoryStr()), name.StrictValidation)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return append(all, origin), nil
}

package sandbox

import (
	"fmt"
	"strings"
)

// CheckEnv refuses what is not KEY=VALUE.
func CheckEnv(lists ...[]string) error {
	for _, l := range lists {
		for _, v := range l {
			if strings.IndexByte(v, '=') < 1 || strings.ContainsRune(v, 0) {
				return fmt.Errorf("%q is not KEY=VALUE", v)
			}
		}
	}
	return nil
}

// MergeEnv gives the variables of all lists; of one name the last value counts.
func MergeEnv(lists ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, l := range lists {
		for _, v := range l {
			name, _, _ := strings.Cut(v, "=")
			if i, ok := at[name]; ok {
				out[i] = v
				continue
			}
			at[name] = len(out)
			out = append(out, v)
		}
	}
	return out
}

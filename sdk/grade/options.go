package grade

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valence-rl/valence/sdk"
)

// Options are the skill's own keys of a run's TOML.
type Options []sdk.Pair

// ReadOptions checks that every key is known. A key that is not is an error that
// names those that are.
func ReadOptions(config []sdk.Pair, known ...string) (Options, error) {
	for _, p := range config {
		if !slices.Contains(known, p.Key) {
			if len(known) == 0 {
				return nil, fmt.Errorf("read options: %s: unknown key; the skill has none", p.Key)
			}
			return nil, fmt.Errorf("read options: %s: unknown key; the skill knows %s", p.Key, strings.Join(known, ", "))
		}
	}
	return config, nil
}

// Bool reads "true" or "false"; def if the key is not set.
func (o Options) Bool(key string, def bool) (bool, error) {
	s, ok := o.text(key)
	if !ok {
		return def, nil
	}
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return false, fmt.Errorf("read options: %s: %q is neither true nor false", key, s)
}

// Int reads a whole number in [low, high]; def if the key is not set.
func (o Options) Int(key string, def, low, high int) (int, error) {
	s, ok := o.text(key)
	if !ok {
		return def, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("read options: %s: %q is not a whole number from %d to %d", key, s, low, high)
	}
	return n, nil
}

// Word reads one of the words allowed, or any text if none are named; def if the key
// is not set.
func (o Options) Word(key, def string, allowed ...string) (string, error) {
	s, ok := o.text(key)
	if !ok {
		return def, nil
	}
	if len(allowed) > 0 && !slices.Contains(allowed, s) {
		return "", fmt.Errorf("read options: %s: %q is none of %s", key, s, strings.Join(allowed, ", "))
	}
	return s, nil
}

func (o Options) text(key string) (string, bool) {
	for i := len(o) - 1; i >= 0; i-- {
		if o[i].Key == key {
			return o[i].Value, true
		}
	}
	return "", false
}

// Deadline is the time limit in milliseconds of each of n commands that share an
// evaluation of timeout milliseconds: so much that all of them may run into it and
// a tenth is left, for then a command without end is the agent's failure and not
// the host's. At most 60 s; 0, the host's default, if timeout is 0.
func Deadline(timeout int64, n int) int64 {
	if timeout <= 0 {
		return 0
	}
	return max(1, min(60_000, timeout*9/10/int64(max(n, 1))))
}

package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Size is a number of bytes, written "512MiB", "1.5GiB", "64KB" or "4096".
type Size int64

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"KB", 1e3}, {"B", 1},
}

// ParseSize reads a size: a decimal number and one of B, kB, KB, MB, GB, TB, KiB,
// MiB, GiB, TiB; no unit means bytes.
func ParseSize(s string) (Size, error) {
	text, unit := strings.TrimSpace(s), 1.0
	for _, u := range sizeUnits {
		if t, ok := strings.CutSuffix(text, u.name); ok {
			text, unit = strings.TrimSpace(t), u.bytes
			break
		}
	}
	if text == "" || strings.Trim(text, "0123456789.") != "" {
		return 0, fmt.Errorf("%q is no size", s)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no size", s)
	}
	n := f * unit
	if n != math.Trunc(n) || n >= 1<<62 {
		return 0, fmt.Errorf("%q is no whole number of bytes below 4 EiB", s)
	}
	return Size(n), nil
}

// String writes the size with the largest binary unit that leaves a whole number.
func (s Size) String() string {
	if s == 0 {
		return "0B"
	}
	for _, u := range sizeUnits[:4] {
		if n := int64(u.bytes); int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

package ask

import (
	"errors"
	"fmt"
	"strings"
)

// Replace makes an edit as models write them: the one place at which old stands in
// text becomes new. The error says why that cannot be done or changes nothing.
func Replace(text, old, new string) (string, error) {
	switch n := strings.Count(text, old); {
	case old == "":
		return "", errors.New("the text to replace is empty")
	case old == new:
		return "", errors.New("the edit changes nothing")
	case n == 0:
		return "", errors.New("the text to replace is not there")
	case n > 1:
		return "", fmt.Errorf("the text to replace is there %d times", n)
	}
	return strings.Replace(text, old, new, 1), nil
}

package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"github.com/valence-rl/valence/core/diag"
)

// What became of a Swap.
const (
	Accepted = "accepted"
	Refused  = "refused"
)

// Where a Swap came from.
const (
	ByFile    = "file"
	BySignal  = "signal"
	ByCommand = "command"
	ByResume  = "resume"
)

const swapsFile = "swaps.jsonl"

// Swaps reads the run's swaps, oldest first.
func (d Dir) Swaps() ([]Swap, error) {
	b, err := os.ReadFile(d.Path(swapsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "read swaps", d.Path(swapsFile), err)
	}
	var out []Swap
	for line := range bytes.Lines(b) {
		var s Swap
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, diag.Errorf(diag.KindData, "read swaps", d.Path(swapsFile), "line %d: %w", len(out)+1, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// AddSwaps puts swaps behind those that are there. When it returns they are on
// disk, all of them; before, none is.
func (d Dir) AddSwaps(more ...Swap) error {
	all, err := d.Swaps()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, s := range append(all, more...) {
		if err := enc.Encode(s); err != nil {
			return diag.Wrap(diag.KindData, "write swaps", d.Path(swapsFile), err)
		}
	}
	return d.WriteFile(swapsFile, b.Bytes())
}

package examine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// ReadRecords reads one record a line: the JSON of sdk.Record, bytes in base64, keys
// in any case. name is what the errors, of kind data, call the input. Blank lines are
// passed over; a key that no record has is an error.
func ReadRecords(name string, r io.Reader) ([]sdk.Record, error) {
	var out []sdk.Record
	seen := map[string]int{}
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, diag.Wrap(diag.KindData, "read records", name, err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			rec, bad := readRecord(line)
			where := fmt.Sprintf("%s:%d", name, n)
			switch {
			case bad != nil:
				return nil, diag.Wrap(diag.KindData, "read records", where, bad)
			case rec.ID == "":
				return nil, diag.Errorf(diag.KindData, "read records", where, "the record has no ID")
			case seen[rec.ID] > 0:
				return nil, diag.Errorf(diag.KindData, "read records", where, "the ID %q is that of line %d, too", rec.ID, seen[rec.ID])
			}
			seen[rec.ID] = n
			out = append(out, *rec)
		}
		if err != nil {
			if len(out) == 0 {
				return nil, diag.Errorf(diag.KindData, "read records", name, "there is none")
			}
			return out, nil
		}
	}
}

func readRecord(line []byte) (*sdk.Record, error) {
	rec := new(sdk.Record)
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(rec); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, errors.New("more than one value on the line")
	}
	return rec, nil
}

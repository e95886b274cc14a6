package examine

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk/sdktest"
	"github.com/valence-rl/valence/sdk/wire"
)

func TestRecordsSurviveJSON(t *testing.T) {
	want := sdktest.Records()
	var b bytes.Buffer
	for _, r := range want {
		if err := json.NewEncoder(&b).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	got, err := ReadRecords("r", &b)
	if err != nil || len(got) != len(want) {
		t.Fatalf("%d records, error %v", len(got), err)
	}
	for i := range got {
		if !bytes.Equal(wire.Marshal(&got[i]), wire.Marshal(&want[i])) {
			t.Errorf("%+v", got[i])
		}
	}
}

func TestReadRecords(t *testing.T) {
	for name, tt := range map[string]struct{ text, says string }{
		"without a last line end": {`{"ID": "a"}`, ""},
		"keys in any case":        {"{\"id\": \"a\", \"problem\": \"p\"}\n\n", ""},
		"nothing":                 {"\n \n", "read records: r: there is none"},
		"an unknown key":          {"{\"ID\": \"a\"}\n{\"ID\": \"b\", \"Isue\": 1}\n", `read records: r:2: json: unknown field "Isue"`},
		"a wrong type":            {`{"ID": 1}`, "read records: r:1: json: cannot unmarshal number"},
		"no JSON":                 {"{", "read records: r:1: unexpected EOF"},
		"two on a line":           {`{"ID": "a"} {"ID": "b"}`, "read records: r:1: more than one value"},
		"no ID":                   {`{"Problem": "p"}`, "read records: r:1: the record has no ID"},
		"an ID again":             {"{\"ID\": \"a\"}\n{\"ID\": \"a\"}", `read records: r:2: the ID "a" is that of line 1, too`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadRecords("r", strings.NewReader(tt.text))
			switch {
			case tt.says == "" && (err != nil || len(got) != 1 || got[0].ID != "a"):
				t.Errorf("%+v, error %v", got, err)
			case tt.says != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.says) || diag.KindOf(err) != diag.KindData):
				t.Errorf("error %v, want %q", err, tt.says)
			}
		})
	}
}

func FuzzReadRecords(f *testing.F) {
	f.Add("{\"ID\": \"a\", \"Workspace\": {\"Files\": [{\"Path\": \"p\", \"Data\": \"YQ==\"}]}}\n")
	f.Add("null\n{}\n[")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := ReadRecords("r", strings.NewReader(text))
		if (err == nil) == (len(records) == 0) {
			t.Fatalf("%d records, error %v", len(records), err)
		}
		seen := map[string]bool{}
		for _, r := range records {
			if r.ID == "" || seen[r.ID] {
				t.Fatalf("ID %q", r.ID)
			}
			seen[r.ID] = true
		}
	})
}

package grade

import (
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
)

func FuzzUnittestReport(f *testing.F) {
	u := &UnittestRun{nonce: "n"}
	f.Add("n passed a.b\nn failed c\nn end 2\n.\n")
	f.Add("n end 0\nn passed late\n")
	f.Fuzz(func(t *testing.T, log string) {
		results, err := u.Read(&sdk.Log{Output: log})
		if err == nil && !strings.Contains(log, "n end ") {
			t.Fatalf("%v of a report without an end", results)
		}
		u.Tail(&sdk.Log{Output: log})
	})
}

func FuzzPlaces(f *testing.F) {
	f.Add("class A:\n    def f(self):\n        return 1\n", "--- a/x.py\n+++ b/x.py\n@@ -3 +3 @@ class A:\n-        return 1\n+        return 2\n")
	f.Fuzz(func(t *testing.T, source, diff string) {
		r := &sdk.Record{Language: "python", Patch: diff, Workspace: sdk.Workspace{Files: []sdk.File{{Path: "x.py", Data: []byte(source)}}}}
		places, err := Places(r)
		if err != nil {
			return
		}
		for _, p := range places {
			if p.Path == "" || strings.HasPrefix(p.Path, "/") {
				t.Fatalf("%+v", p)
			}
		}
	})
}

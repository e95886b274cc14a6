package served

import (
	"encoding/json"
	"testing"

	"github.com/valence-rl/valence/core/chatserver"
)

// Whatever a model writes as a call, it is one that the tools take, or an error that says
// what to mend; and what goes back to the server as a call has an object for arguments.
func FuzzCall(f *testing.F) {
	f.Add("bash", `{"command":"ls"}`)
	f.Add("str_replace", `{"command":"insert","path":"a","insert_line":3,"new_str":null}`)
	f.Add("python", `[`)
	f.Fuzz(func(t *testing.T, name, arguments string) {
		calls, err := readCalls([]chatserver.Call{{Name: name, Arguments: arguments}})
		switch c := calls[0]; {
		case err == nil && (c.arguments == nil || !c.object):
			t.Fatalf("%+v", c)
		case err != nil && err.Error() == "":
			t.Fatal("an error without words")
		case whole(calls):
			var m map[string]any
			if json.Unmarshal([]byte(c.Arguments), &m) != nil {
				t.Fatalf("%q goes back as a call", c.Arguments)
			}
		}
	})
}

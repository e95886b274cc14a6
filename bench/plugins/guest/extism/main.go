//go:build wasip1

// The guest of extism, with the messages of Valence: it answers with the number of
// files that it is given.
package main

import (
	"strconv"

	"github.com/extism/go-pdk"

	"github.com/valence-rl/valence/bench/plugins/work"
	"github.com/valence-rl/valence/sdk/wire"
)

func main() {}

//go:wasmexport evaluate
func evaluate() int32 {
	var r wire.EvaluateRequest
	if err := wire.Unmarshal(pdk.Input(), &r); err != nil {
		pdk.SetError(err)
		return 1
	}
	n := work.Do(r.Task.Key, r.Seed, len(r.Task.Workspace.Files)+len(r.Output.Changes))
	pdk.Output(wire.Marshal(&wire.Verdict{Score: 1, Components: []wire.Component{{Name: "files", Value: float64(n)}}, Reason: strconv.Itoa(n)}))
	return 0
}

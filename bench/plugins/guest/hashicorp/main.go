// The plugin of hashicorp/go-plugin: it answers with the number of files that it is given.
package main

import (
	"strconv"

	"github.com/hashicorp/go-plugin"

	"github.com/valence-rl/valence/bench/plugins/hashicorp"
	"github.com/valence-rl/valence/bench/plugins/work"
	"github.com/valence-rl/valence/sdk/wire"
)

func main() {
	plugin.Serve(&plugin.ServeConfig{
		HandshakeConfig: hashicorp.Handshake,
		GRPCServer:      plugin.DefaultGRPCServer,
		Plugins: plugin.PluginSet{"skill": hashicorp.Skill{Evaluate: func(in []byte) ([]byte, error) {
			var r wire.EvaluateRequest
			if err := wire.Unmarshal(in, &r); err != nil {
				return nil, err
			}
			n := work.Do(r.Task.Key, r.Seed, len(r.Task.Workspace.Files)+len(r.Output.Changes))
			return wire.Marshal(&wire.Verdict{Score: 1, Components: []wire.Component{{Name: "files", Value: float64(n)}}, Reason: strconv.Itoa(n)}), nil
		}}},
	})
}

package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

// pulled is the result of plugin pull.
type pulled struct {
	module
	File string `json:"file,omitempty"` // the copy that was asked for
}

func (r pulled) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s %s (%s, %s)\n", p.in(p.green, "pulled"), r.Name, r.Version, sized(r.Bytes), r.Digest)
	g := grid{left: map[int]bool{1: true}}
	if r.Signer != "" {
		g.add("signer", r.Signer)
	}
	if r.File != "" {
		g.add("copied to", r.File)
	}
	g.write(w, p)
}

func newPluginPullCommand(a *app) *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "pull REF",
		Short: "Fetch a plugin from a registry into the cache, checked as for a run",
		Args:  cobra.ExactArgs(1),
	}
	f := a.findFlags(cmd)
	cmd.Flags().StringVar(&to, "to", "", "also write the module to a `file`")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, _, err := f.resolve(cmd.Context(), args[0], registry.WASM)
		if err != nil {
			return err
		}
		if to != "" {
			if err := m.Save(to); err != nil {
				return diag.Wrap(diag.KindPlugin, "pull plugin", args[0], err)
			}
		}
		return a.out.result(pulled{describeResolved(m), to})
	}
	return cmd
}

// size of what is run, in bytes; 0 if it cannot be read.
func size(m *registry.Module) int {
	if m.Wasm != nil {
		return len(m.Wasm)
	}
	if info, err := os.Stat(m.Path); err == nil {
		return int(info.Size())
	}
	return 0
}

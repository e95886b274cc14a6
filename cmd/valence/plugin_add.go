package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

// added is the result of plugin add.
type added struct {
	Lock    string        `json:"lock"`
	Plugins []addedPlugin `json:"plugins"`
}

type addedPlugin struct {
	Ref       string `json:"ref"`
	Name      string `json:"name"`
	Version   string `json:"version"`
	Transport string `json:"transport"`
	Digest    string `json:"digest"`
	Signer    string `json:"signer,omitempty"`
	Before    string `json:"before,omitempty"` // the digest that was pinned until now
}

func (r added) table(w io.Writer, p palette) {
	g := grid{head: []string{"PLUGIN", "VERSION", "TRANSPORT", "SIGNER", "DIGEST", "PIN"}, left: map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true}}
	for _, x := range r.Plugins {
		pin := "new"
		switch x.Before {
		case "":
		case x.Digest:
			pin = "as before"
		default:
			pin = "was " + short(x.Before)
		}
		signer := x.Signer
		if signer == "" {
			signer = "-"
		}
		g.add(x.Ref, x.Version, x.Transport, signer, short(x.Digest), pin)
	}
	g.write(w, p)
	fmt.Fprintf(w, "%s %s\n", p.in(p.green, "pinned in"), r.Lock)
}

func newPluginAddCommand(a *app) *cobra.Command {
	var transport string
	cmd := &cobra.Command{
		Use:   "add [REF…]",
		Short: "Find and check plugins, and pin them in plugins.lock",
		Long: `Find and check plugins as a run would, and pin their digests in the lock file. Without
REF, these are all plugins and judges of the configuration. A pin that is there already is
replaced.`,
		Example: `  valence plugin add review@1.2.0 -c run.toml
  valence plugin add -c run.toml`,
	}
	f := a.findFlags(cmd)
	transportFlag(cmd, &transport, "pin what runs so: wasm or process (default: as the manifest says)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, c, err := f.options()
		if err != nil {
			return err
		}
		var refs []wanted
		for _, ref := range args {
			refs = append(refs, wanted{ref, transport})
		}
		if len(args) == 0 && c != nil {
			refs = wantedBy(c)
		}
		if len(refs) == 0 {
			return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C047", Summary: "no plugin to add", Hint: "name one, or a configuration with -c FILE"}
		}
		find := o
		find.Lock, find.Locked = "", false // the pin is what changes
		var found []*registry.Module
		for _, w := range refs {
			find.Transport = w.transport
			m, err := registry.Resolve(cmd.Context(), w.ref, find)
			if err != nil {
				return err
			}
			found = append(found, m)
		}
		pinned, err := o.Pin(cmd.Context(), found...)
		if err != nil {
			return err
		}
		r := added{Lock: o.Lock}
		for _, x := range pinned {
			r.Plugins = append(r.Plugins, addedPlugin{x.Ref, x.Name, x.Version, x.Transport, x.Digest, x.Signer, x.Before})
		}
		return a.out.result(r)
	}
	return cmd
}

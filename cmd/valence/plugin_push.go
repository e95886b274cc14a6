package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/registry"
)

// pushed is the result of plugin push.
type pushed struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	Address  string   `json:"address"`
	Artifact string   `json:"artifact"` // digest of the artifact
	Digest   string   `json:"digest"`   // of the module
	Keys     []string `json:"keys"`     // that the module was signed with
	Replaced bool     `json:"replaced"` // another module was there
}

func (r pushed) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s %s to %s\n", p.in(p.green, "pushed"), r.Name, r.Version, r.Address)
	g := grid{left: map[int]bool{1: true}}
	g.add("module", r.Digest)
	g.add("artifact", r.Artifact)
	signed := "nobody"
	if len(r.Keys) > 0 {
		signed = strings.Join(r.Keys, ", ")
	}
	g.add("signed by", signed)
	if r.Replaced {
		g.add("replaced", "another module of that address")
	}
	g.write(w, p)
}

func newPluginPushCommand(a *app) *cobra.Command {
	var file string
	var force bool
	cmd := &cobra.Command{
		Use:   "push REF [oci://HOST/REPOSITORY:TAG]",
		Short: "Put a plugin into an OCI registry, signed if a key is given",
		Long: `Put a plugin into an OCI registry, as a module that carries its manifest. Without an
address it goes by name and version into the repository of the configuration. Credentials
are those of docker login.`,
		Example: `  valence plugin push plugins/review oci://ghcr.io/acme/skills/review:1.2.0 --key acme.pem
  valence plugin push plugins/review -c run.toml`,
		Args: cobra.RangeArgs(1, 2),
	}
	f := a.findFlags(cmd)
	cmd.Flags().StringVar(&file, "key", "", "sign with the private key in this `file`, made by plugin keygen")
	cmd.Flags().BoolVar(&force, "force", false, "replace another plugin at that address")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, _, err := f.options()
		if err != nil {
			return err
		}
		if !o.Locked {
			o.Lock = "" // what is pushed is what is there, and may be new
		}
		var key *registry.PrivateKey
		if file != "" {
			k, err := registry.ReadPrivateKey(file)
			if err != nil {
				return err
			}
			key = &k
		}
		to := ""
		if len(args) > 1 {
			to = args[1]
		}
		x, err := registry.Push(cmd.Context(), args[0], to, key, force, o)
		if err != nil {
			return err
		}
		return a.out.result(pushed{x.Module.Manifest.Name, x.Module.Manifest.Version, x.Address, x.Artifact, x.Module.Digest, keyTexts(x.Module.Keys), x.Replaced})
	}
	return cmd
}

func keyTexts(keys []registry.PublicKey) []string {
	out := []string{}
	for _, k := range keys {
		out = append(out, k.String())
	}
	return out
}

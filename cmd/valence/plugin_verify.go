package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// verified is the result of plugin verify; what does not hold is an error instead.
type verified struct {
	module
	Lock   string `json:"lock"`
	Pinned bool   `json:"pinned"`
}

func (r verified) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s (%s, abi v%d, %s)\n", p.in(p.bold, "plugin "+r.Name), r.Version, r.Transport, r.ABI, short(r.Digest))
	line := func(holds bool, what, text string) {
		mark := p.in(p.green, "ok  ")
		if !holds {
			mark = p.in(p.yellow, "none")
		}
		fmt.Fprintf(w, "%s  %-9s  %s\n", mark, what, text)
	}
	line(true, "digest", r.Digest)
	switch {
	case r.Signer != "":
		line(true, "signature", "by "+r.Signer)
	case len(r.Keys) > 0:
		line(true, "signature", fmt.Sprintf("by %s, and nobody is asked for one", r.Keys[0]))
	default:
		line(false, "signature", "and nobody is asked for one")
	}
	if r.Pinned {
		line(true, "pin", "in "+r.Lock)
	} else {
		line(false, "pin", "pin it: valence plugin add "+r.Ref)
	}
}

func newPluginVerifyCommand(a *app) *cobra.Command {
	var transport string
	cmd := &cobra.Command{
		Use:   "verify REF",
		Short: "Check a plugin's bytes, signature and pin, and run nothing",
		Long: `Check a plugin as a run of the configuration would before it runs anything of it: the
bytes against their digest, the manifest, the signature against the [trust.…] sections,
and the digest against the pin. Exit code 11 and a diagnostic say what does not hold.`,
		Args: cobra.ExactArgs(1),
	}
	f := a.findFlags(cmd)
	transportFlag(cmd, &transport, "check what runs so: wasm or process (default: as the manifest says)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, lock, err := f.resolve(cmd.Context(), args[0], transport)
		if err != nil {
			return err
		}
		return a.out.result(verified{describeResolved(m), lock, m.Pinned})
	}
	return cmd
}

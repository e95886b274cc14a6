package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/registry"
)

// generated is the result of plugin keygen.
type generated struct {
	File string `json:"file"` // of the private key
	Name string `json:"name"`
	Key  string `json:"key"` // public
}

func (r generated) table(w io.Writer, _ palette) {
	fmt.Fprintf(w, "# The private key is in %s. Whoever trusts it adds to a run's TOML:\n[trust.%s]\nkey = %q\n", r.File, r.Name, r.Key)
}

// bareKey is what needs no quotes in the header of a TOML table.
var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func newPluginKeygenCommand(a *app) *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:   "keygen FILE",
		Short: "Make a key to sign plugins with, and print the lines that trust it",
		Args:  cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&name, "name", "", "the signer's `name` in the printed lines (default: that of the file)")
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		file := args[0]
		if name == "" {
			name = strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		}
		if !bareKey.MatchString(name) {
			return &diag.Diagnostic{Kind: diag.KindConfig, Code: "C048", Summary: fmt.Sprintf("%q cannot be a signer's name", name),
				Hint: "letters, digits, hyphens and underscores: --name NAME"}
		}
		k, err := registry.GenerateKey()
		if err == nil {
			err = k.Save(file)
		}
		if errors.Is(err, fs.ErrExist) {
			return &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P023", Summary: fmt.Sprintf("there is a file %q already", file),
				Hint: "name another one; a key that is lost cannot be made again"}
		}
		if err != nil {
			return diag.Wrap(diag.KindPlugin, "make key", file, err)
		}
		return a.out.result(generated{file, name, k.Public().String()})
	}
	return cmd
}

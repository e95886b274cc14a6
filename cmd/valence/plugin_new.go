package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/scaffold"
	"github.com/valence-rl/valence/registry"
)

// created is the result of plugin new.
type created struct {
	*scaffold.Skill
	Next []string `json:"next"` // commands to go on with
}

func (c created) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s (%s) in %s\n", p.in(p.bold, "skill "+c.Name), c.Language, c.Dir)
	for _, f := range c.Files {
		fmt.Fprintf(w, "  %s\n", f)
	}
	switch {
	case c.Language == registry.Go && c.Module != "":
		fmt.Fprintf(w, "It is part of the module of %s, which has to require github.com/valence-rl/valence.\n", c.Module)
	case c.Language == registry.Go:
		fmt.Fprintf(w, "Its go.mod takes the SDK from %s.\n", c.SDK)
	case c.Language == registry.Python && c.SDK == "":
		fmt.Fprintln(w, "CHECKOUT is the folder with Valence's sources, which --sdk names.")
	}
	fmt.Fprintf(w, "%s\n", p.in(p.bold, "next"))
	for _, n := range c.Next {
		fmt.Fprintf(w, "  %s\n", n)
	}
}

func newPluginNewCommand(a *app) *cobra.Command {
	var o scaffold.Options
	cmd := &cobra.Command{
		Use:   "new NAME",
		Short: "Make the folder of a new skill, which builds, runs and passes its tests",
		Long: `Make the folder of a new skill, which builds, runs and passes its tests as it is, to be
changed into yours. A skill in Go becomes a module of its own, unless its folder lies in
one; the module takes the SDK from the checkout that this program was built from, or
from the one that --sdk names.`,
		Example: `  valence plugin new my-skill
  valence plugin new my-skill --lang python`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Name = args[0]
			s, err := scaffold.New(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.out.result(created{s, next(s)})
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Language, "lang", registry.Go, "language of the skill: go, python, rust, c or assemblyscript")
	f.StringVar(&o.Dir, "dir", "", "the `folder` to make (default: the name)")
	f.StringVar(&o.SDK, "sdk", "", "checkout of Valence to take the SDK from, a `folder`")
	return cmd
}

// next are the commands that follow.
func next(s *scaffold.Skill) []string {
	dir := s.Dir
	if strings.ContainsAny(dir, " '\"$") {
		dir = "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	}
	out := []string{"cd " + dir}
	switch s.Language {
	case registry.Python:
		from := s.SDK
		if from == "" {
			from = "CHECKOUT/sdk/python"
		}
		out = append(out, "python3 -m venv .venv && .venv/bin/pip install "+from)
	case registry.AssemblyScript:
		out = append(out, "npm install")
	}
	return append(out, "valence plugin build", "valence plugin test")
}

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is the program's.
const version = "0.1.0-dev"

type versionResult struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func (v versionResult) table(w io.Writer, _ palette) {
	rev := ""
	if len(v.Revision) >= 12 {
		rev = " (" + v.Revision[:12]
		if v.Modified {
			rev += ", modified"
		}
		rev += ")"
	}
	fmt.Fprintf(w, "valence %s%s %s %s\n", v.Version, rev, v.Go, v.Platform)
}

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := versionResult{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
			if b, ok := debug.ReadBuildInfo(); ok {
				for _, s := range b.Settings {
					switch s.Key {
					case "vcs.revision":
						v.Revision = s.Value
					case "vcs.modified":
						v.Modified = s.Value == "true"
					}
				}
			}
			return a.out.result(v)
		},
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/host"
	"github.com/valence-rl/valence/registry"
)

func newPluginCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plugin",
		Short: "Make, build, test, share, pin and swap plugins",
		Args:  cobra.NoArgs,
		RunE:  needsVerb,
	}
	cmd.AddCommand(newPluginNewCommand(a), newPluginBuildCommand(a), newPluginListCommand(a), newPluginShowCommand(a), newPluginExamineCommand(a), newPluginSwapCommand(a),
		newPluginAddCommand(a), newPluginPushCommand(a), newPluginPullCommand(a), newPluginVerifyCommand(a), newPluginKeygenCommand(a))
	return cmd
}

// module is what the plugin verbs say of one plugin.
type module struct {
	Ref          string   `json:"ref"`
	Name         string   `json:"name"`
	Version      string   `json:"version"`
	ABI          int      `json:"abi"`
	Roles        []string `json:"roles"`
	Capabilities []string `json:"capabilities"`
	Language     string   `json:"language"`
	Transport    string   `json:"transport"`
	Description  string   `json:"description,omitempty"`
	Licence      string   `json:"licence,omitempty"`
	Source       string   `json:"source,omitempty"`
	Settings     []option `json:"settings,omitempty"`
	Signer       string   `json:"signer,omitempty"` // by the trust list
	Keys         []string `json:"keys,omitempty"`   // whose signatures hold
	Digest       string   `json:"digest,omitempty"`
	Bytes        int      `json:"bytes,omitempty"`
	Seconds      float64  `json:"seconds,omitempty"` // that building or finding it took
}

// option is a setting of a plugin.
type option struct {
	Key     string   `json:"key"`
	Type    string   `json:"type"`
	Default any      `json:"default,omitempty"`
	Min     *float64 `json:"min,omitempty"`
	Max     *float64 `json:"max,omitempty"`
	Enum    []string `json:"enum,omitempty"`
	Doc     string   `json:"doc,omitempty"`
}

func describeModule(ref string, m registry.Manifest) module {
	d := module{Ref: ref, Name: m.Name, Version: m.Version, ABI: m.ABI, Roles: m.Roles, Capabilities: m.Capabilities, Language: m.Language, Transport: m.Transport,
		Description: m.Description, Licence: m.Licence, Source: m.Source}
	if d.Capabilities == nil {
		d.Capabilities = []string{}
	}
	for _, key := range slices.Sorted(maps.Keys(m.Config)) {
		s := m.Config[key]
		d.Settings = append(d.Settings, option{key, s.Type, s.Default, s.Min, s.Max, s.Enum, s.Doc})
	}
	return d
}

// describeResolved also says what was found.
func describeResolved(m *registry.Module) module {
	d := describeModule(m.Ref, m.Manifest)
	d.Transport, d.Signer, d.Digest, d.Bytes = m.Transport, m.Signer, m.Digest, size(m)
	if len(m.Keys) > 0 {
		d.Keys = keyTexts(m.Keys)
	}
	return d
}

// listedModules is the result of plugin list.
type listedModules []module

func (ms listedModules) table(w io.Writer, p palette) {
	g := grid{head: []string{"PLUGIN", "VERSION", "LANGUAGE", "TRANSPORT", "ROLES", "CAPABILITIES", "SETTINGS"},
		left: map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true}}
	for _, m := range ms {
		var keys []string
		for _, s := range m.Settings {
			keys = append(keys, s.Key)
		}
		g.add(m.Ref, m.Version, m.Language, m.Transport, strings.Join(m.Roles, " "), strings.Join(m.Capabilities, " "), strings.Join(keys, " "))
	}
	g.write(w, p)
}

// builtModules is the result of plugin build.
type builtModules []module

func (ms builtModules) table(w io.Writer, p palette) {
	g := grid{head: []string{"PLUGIN", "VERSION", "LANGUAGE", "TRANSPORT", "SIZE", "DIGEST"}, left: map[int]bool{1: true, 2: true, 3: true, 5: true}}
	for _, m := range ms {
		g.add(m.Ref, m.Version, m.Language, m.Transport, sized(m.Bytes), short(m.Digest))
	}
	g.write(w, p)
}

// sized is a number of bytes in words.
func sized(n int) string {
	switch {
	case n < 1_000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func (m module) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s (%s, abi v%d, %s)\n", p.in(p.bold, "plugin "+m.Name), m.Version, m.Transport, m.ABI, short(m.Digest))
	if m.Description != "" {
		fmt.Fprintf(w, "%s\n", m.Description)
	}
	g := grid{left: map[int]bool{1: true}}
	g.add("from", m.Ref)
	g.add("language", m.Language)
	g.add("roles", strings.Join(m.Roles, ", "))
	g.add("capabilities", strings.Join(m.Capabilities, ", "))
	if m.Licence != "" {
		g.add("licence", m.Licence)
	}
	if m.Source != "" {
		g.add("source", m.Source)
	}
	switch {
	case m.Signer != "":
		g.add("signer", m.Signer)
	case len(m.Keys) > 0:
		g.add("signed by", strings.Join(m.Keys, ", "))
	}
	g.add("size", sized(m.Bytes))
	g.add("digest", m.Digest)
	g.write(w, p)
	if len(m.Settings) == 0 {
		return
	}
	g = grid{head: []string{"SETTING", "TYPE", "DEFAULT", "ACCEPTS", "MEANING"}, left: map[int]bool{1: true, 2: true, 3: true, 4: true}}
	for _, s := range m.Settings {
		standard := "-"
		if s.Default != nil {
			standard = fmt.Sprint(s.Default)
		}
		g.add(s.Key, s.Type, standard, s.accepts(), s.Doc)
	}
	fmt.Fprintln(w)
	g.write(w, p)
}

// accepts puts the range of a setting's values in words.
func (o option) accepts() string {
	switch {
	case o.Enum != nil:
		return strings.Join(o.Enum, ", ")
	case o.Min != nil && o.Max != nil:
		return fmt.Sprintf("%g to %g", *o.Min, *o.Max)
	case o.Min != nil:
		return fmt.Sprintf("%g or more", *o.Min)
	case o.Max != nil:
		return fmt.Sprintf("%g or less", *o.Max)
	}
	return ""
}

func short(digest string) string {
	if len(digest) > 19 {
		return digest[:19] + "…"
	}
	return digest
}

// pluginFolders are the folders below the arguments that hold a plugin.toml. Without
// arguments that is the working folder, if it is a plugin, or what lies in plugins.
func pluginFolders(args []string) ([]string, error) {
	asked := len(args) > 0
	if !asked {
		args = []string{"plugins"}
		if _, err := os.Stat(registry.ManifestFile); err == nil {
			args = []string{"."}
		}
	}
	var out []string
	for _, root := range args {
		if strings.HasSuffix(root, ".wasm") {
			out = append(out, root)
			continue
		}
		n := len(out)
		err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && p != root) {
				return filepath.SkipDir
			}
			if !d.IsDir() && d.Name() == "plugin.toml" {
				out = append(out, filepath.Dir(p))
			}
			return nil
		})
		if errors.Is(err, os.ErrNotExist) || err == nil && len(out) == n {
			return nil, noPlugin(root, asked)
		}
		if err != nil {
			return nil, diag.Wrap(diag.KindPlugin, "find plugins", root, err)
		}
	}
	slices.Sort(out)
	return out, nil
}

// noPlugin says that there is none in a folder, or below it.
func noPlugin(root string, asked bool) error {
	d := &diag.Diagnostic{Kind: diag.KindPlugin, Code: "P001", Summary: fmt.Sprintf("no plugin.toml in %q or below it", root),
		Hint: "name a plugin's folder or one above it"}
	if !asked {
		d.Summary = "no plugin.toml in this folder, nor in " + root
		d.Hint += ", or make one: valence plugin new NAME"
	}
	return d
}

func newPluginBuildCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "build [FOLDER…]",
		Short: "Compile plugins, as far as the cache does not have them",
		Long: `Compile the plugins of folders, as far as the cache does not have them, each for the
transport of its manifest. A plugin in Python is not compiled; its manifest is checked.
Without FOLDER it builds the plugin in the working folder, or all of plugins.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			folders, err := pluginFolders(args)
			if err != nil {
				return err
			}
			var out builtModules
			for _, f := range folders {
				started := time.Now()
				m, err := registry.Resolve(cmd.Context(), f, registry.Options{})
				if err != nil {
					return err
				}
				d := describeResolved(m)
				d.Seconds = time.Since(started).Seconds()
				out = append(out, d)
			}
			if a.quiet && a.output == "table" {
				return nil
			}
			return a.out.result(out)
		},
	}
}

func newPluginListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list [FOLDER…]",
		Short: "List plugins by their manifests",
		RunE: func(_ *cobra.Command, args []string) error {
			folders, err := pluginFolders(args)
			if err != nil {
				return err
			}
			var out listedModules
			for _, f := range folders {
				m, err := registry.ReadManifest(f, f)
				if err != nil {
					return err
				}
				out = append(out, describeModule(f, *m))
			}
			return a.out.result(out)
		},
	}
}

func newPluginShowCommand(a *app) *cobra.Command {
	var transport string
	cmd := &cobra.Command{
		Use:   "show REF",
		Short: "Load one plugin and show what it says of itself",
		Args:  cobra.ExactArgs(1),
	}
	f := a.findFlags(cmd)
	transportFlag(cmd, &transport, "how the plugin is run: wasm or process (default: as its manifest says)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, _, err := f.resolve(cmd.Context(), args[0], transport)
		if err != nil {
			return err
		}
		p, err := host.Load(cmd.Context(), m, host.Options{Grants: m.Manifest.Capabilities, Log: a.logger()})
		if err != nil {
			return err
		}
		defer p.Close()
		return a.out.result(describeResolved(m))
	}
	return cmd
}

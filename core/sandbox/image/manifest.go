package image

import (
	"encoding/json"
	"maps"
	"path"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Most bytes of documents; registries have such limits themselves.
const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
)

// manifest is one, or an index of them: media types are optional, fields tell.
type manifest struct {
	SchemaVersion int             `json:"schemaVersion"`
	MediaType     string          `json:"mediaType"`
	Manifests     []v1.Descriptor `json:"manifests"`
	Config        v1.Descriptor   `json:"config"`
	Layers        []v1.Descriptor `json:"layers"`
}

// mediaTypes are those that a registry is asked for.
var mediaTypes = strings.Join([]string{
	"application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json",
	"application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.distribution.manifest.list.v2+json",
}, ", ")

func readManifest(raw []byte) (*manifest, error) {
	m := new(manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, refuse(Malformed, "its manifest cannot be read: %w", err)
	}
	switch {
	case m.SchemaVersion != 2:
		return nil, refuse(Malformed, "its manifest has version %d, 2 is read", m.SchemaVersion)
	case m.Manifests == nil && !digestForm.MatchString(m.Config.Digest.String()):
		return nil, refuse(Malformed, "its manifest names no configuration")
	}
	for _, l := range m.Layers {
		if !digestForm.MatchString(l.Digest.String()) || l.Size < 0 {
			return nil, refuse(Malformed, "its manifest names a layer %q of %d bytes", l.Digest, l.Size)
		}
	}
	return m, nil
}

// pick gives the entry of an index for this machine.
func (m *manifest) pick() (v1.Descriptor, error) {
	var have []string
	for _, d := range m.Manifests {
		p := d.Platform
		if p == nil && len(m.Manifests) == 1 || p != nil && p.OS == "linux" && p.Architecture == runtime.GOARCH {
			if !digestForm.MatchString(d.Digest.String()) {
				return d, refuse(Malformed, "its index names %q", d.Digest)
			}
			return d, nil
		}
		if p != nil {
			have = append(have, p.String())
		}
	}
	return v1.Descriptor{}, refuse(Absent, "it is not for linux/%s, but for %q", runtime.GOARCH, have)
}

// config is what an image says of itself.
type config struct {
	diffIDs []string
	run     v1.Config
}

func readConfig(raw []byte) (*config, error) {
	var f v1.ConfigFile
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, refuse(Malformed, "its configuration cannot be read: %w", err)
	}
	if f.OS != "" && f.OS != "linux" || f.Architecture != "" && f.Architecture != runtime.GOARCH {
		return nil, refuse(Absent, "it is for %s/%s, this machine is linux/%s", f.OS, f.Architecture, runtime.GOARCH)
	}
	c := &config{run: f.Config}
	for _, d := range f.RootFS.DiffIDs {
		if !digestForm.MatchString(d.String()) {
			return nil, refuse(Malformed, "its configuration names a layer %q", d)
		}
		c.diffIDs = append(c.diffIDs, d.String())
	}
	return c, nil
}

// workingDir is absolute and clean.
func (c *config) workingDir() string { return path.Clean("/" + c.run.WorkingDir) }

// content is an image that can be had.
type content struct {
	digest string
	config *config
	layers []layer // the lowest first
}

// assemble pairs layers with what the configuration calls them.
func assemble(digest string, c *config, layers []layer) (*content, error) {
	if len(layers) != len(c.diffIDs) {
		return nil, refuse(Malformed, "it has %d layers, its configuration names %d", len(layers), len(c.diffIDs))
	}
	for i := range layers {
		layers[i].diffID = c.diffIDs[i]
	}
	return &content{digest, c, layers}, nil
}

// only gives the entry for this machine of an index that may list several images.
func (m *manifest) only() (v1.Descriptor, error) {
	if len(m.Manifests) > 1 {
		names := map[string]bool{}
		for _, d := range m.Manifests {
			if n := d.Annotations["org.opencontainers.image.ref.name"]; n != "" && (d.Platform == nil || d.Platform.Architecture == runtime.GOARCH) {
				names[n] = true
			}
		}
		if len(names) > 1 {
			return v1.Descriptor{}, refuse(Malformed, "it has several images, save one alone: %q", slices.Sorted(maps.Keys(names)))
		}
	}
	return m.pick()
}

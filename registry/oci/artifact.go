package oci

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Media types of an artifact.
const (
	ManifestType = "application/vnd.oci.image.manifest.v1+json"
	ConfigType   = "application/vnd.wasm.config.v0+json"
	ModuleType   = "application/wasm"
)

// Annotations of an artifact's manifest that are ours; the others are OCI's own.
const (
	PluginNote    = "io.github.valence-rl.plugin"    // the text of plugin.toml
	SignatureNote = "io.github.valence-rl.signature" // signatures of the module, with blanks between
)

// MaxModule is how large a module may be, in bytes: 256 MiB.
const MaxModule = 256 << 20

// maxManifest is how large an artifact's manifest may be, in bytes; registries have
// the same limit.
const maxManifest = 4 << 20

// Artifact is a module as it lies in a registry.
type Artifact struct {
	Module []byte
	Notes  map[string]string // annotations
}

// descriptor names content.
type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// manifest is an OCI image manifest, as far as it matters here.
type manifest struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	Config        descriptor        `json:"config"`
	Layers        []descriptor      `json:"layers"`
	Annotations   map[string]string `json:"annotations,omitempty"`
}

// config is the configuration of the CNCF's layout for WASM.
type config struct {
	Created      time.Time `json:"created"`
	Architecture string    `json:"architecture"`
	OS           string    `json:"os"`
	LayerDigests []string  `json:"layerDigests"`
}

// encode gives the two documents of an artifact. They depend on the module and its
// annotations alone, the time of creation is the epoch: what is pushed twice has one
// digest.
func (a *Artifact) encode() (m manifest, raw, rawConfig []byte, err error) {
	module := describe(ModuleType, a.Module)
	rawConfig, err = json.Marshal(config{Created: time.Unix(0, 0).UTC(), Architecture: "wasm", OS: "wasip1", LayerDigests: []string{module.Digest}})
	if err != nil {
		return m, nil, nil, err
	}
	m = manifest{SchemaVersion: 2, MediaType: ManifestType, Config: describe(ConfigType, rawConfig), Layers: []descriptor{module}, Annotations: a.Notes}
	raw, err = json.Marshal(m)
	return m, raw, rawConfig, err
}

// decode reads a manifest. The error says why it is no artifact of this layout.
func decode(raw []byte) (*manifest, error) {
	if len(raw) > maxManifest {
		return nil, fmt.Errorf("its manifest has %d bytes, at most %d are read", len(raw), maxManifest)
	}
	m := new(manifest)
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("its manifest cannot be read: %w", err)
	}
	switch {
	case m.Config.MediaType != ConfigType:
		return nil, fmt.Errorf("its configuration has type %q, a module's has %q", m.Config.MediaType, ConfigType)
	case len(m.Layers) != 1:
		return nil, fmt.Errorf("it has %d layers, a module has one", len(m.Layers))
	case m.Layers[0].MediaType != ModuleType:
		return nil, fmt.Errorf("its layer has type %q, a module's has %q", m.Layers[0].MediaType, ModuleType)
	case m.Layers[0].Size < 0 || m.Layers[0].Size > MaxModule:
		return nil, fmt.Errorf("its module has %d bytes, at most %d are read", m.Layers[0].Size, MaxModule)
	case !isDigest(m.Layers[0].Digest):
		return nil, errors.New("its layer is not named by a sha256")
	}
	return m, nil
}

func isDigest(s string) bool {
	h, ok := strings.CutPrefix(s, "sha256:")
	b, err := hex.DecodeString(h)
	return ok && err == nil && len(b) == sha256.Size && strings.ToLower(h) == h
}

func describe(mediaType string, b []byte) descriptor {
	return descriptor{MediaType: mediaType, Digest: digest(b), Size: int64(len(b))}
}

func digest(b []byte) string {
	d := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(d[:])
}

package main

import (
	"context"
	"errors"
	"io"
	"os/exec"

	extism "github.com/extism/go-sdk"
	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/valence-rl/valence/bench/plugins/hashicorp"
	"github.com/valence-rl/valence/bench/plugins/knq"
	"github.com/valence-rl/valence/sdk/wire"
)

var background = context.Background()

// cached is a configuration of wazero with compiled code at hand, so that nobody's
// instance is charged for compiling. Guests cannot be interrupted under it.
func cached(g guests) (wazero.RuntimeConfig, error) {
	c, err := wazero.NewCompilationCacheWithDir(g.cache)
	if err != nil {
		return nil, err
	}
	return wazero.NewRuntimeConfig().WithCompilationCache(c), nil
}

// knqPlugin gives each instance a runtime of its own, as the library does.
type knqPlugin struct {
	from *knq.SkillPlugin
	path string
	to   interface {
		Evaluate(context.Context, *knq.EvaluateRequest) (*knq.Verdict, error)
		Close(context.Context) error
	}
}

func openKnq(g guests) (plugin, error) {
	c, err := cached(g)
	if err != nil {
		return nil, err
	}
	from, err := knq.NewSkillPlugin(background, knq.WazeroRuntime(func(ctx context.Context) (wazero.Runtime, error) {
		r := wazero.NewRuntimeWithConfig(ctx, c)
		_, err := wasi_snapshot_preview1.Instantiate(ctx, r)
		return r, err
	}))
	if err != nil {
		return nil, err
	}
	return (&knqPlugin{from: from, path: g.knq}).another()
}

func (k *knqPlugin) another() (plugin, error) {
	to, err := k.from.Load(background, k.path)
	return &knqPlugin{k.from, k.path, to}, err
}

func (k *knqPlugin) call(q question) error {
	v, err := k.to.Evaluate(background, q.knq)
	if err == nil && v.Score != 1 {
		err = errors.New("a wrong verdict")
	}
	return err
}

func (k *knqPlugin) close() { k.to.Close(background) }

type extismPlugin struct {
	from *extism.CompiledPlugin
	to   *extism.Plugin
}

func openExtism(g guests) (plugin, error) {
	c, err := cached(g)
	if err != nil {
		return nil, err
	}
	from, err := extism.NewCompiledPlugin(background, extism.Manifest{Wasm: []extism.Wasm{extism.WasmFile{Path: g.extism}}},
		extism.PluginConfig{EnableWasi: true, RuntimeConfig: c}, nil)
	if err != nil {
		return nil, err
	}
	return (&extismPlugin{from: from}).another()
}

func (e *extismPlugin) another() (plugin, error) {
	to, err := e.from.Instance(background, extism.PluginInstanceConfig{})
	return &extismPlugin{e.from, to}, err
}

func (e *extismPlugin) call(q question) error {
	_, out, err := e.to.Call("evaluate", wire.Marshal(q.ours))
	return verdict(out, err)
}

func (e *extismPlugin) close() { e.to.Close(background) }

type hashicorpPlugin struct {
	path   string
	mtls   bool
	client *goplugin.Client
	ask    func([]byte) ([]byte, error)
}

func openHashicorp(path string, mtls bool) (plugin, error) {
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  hashicorp.Handshake,
		Plugins:          goplugin.PluginSet{"skill": hashicorp.Skill{}},
		Cmd:              exec.Command(path),
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         mtls,
		Logger:           hclog.New(&hclog.LoggerOptions{Output: io.Discard}),
		Stderr:           io.Discard,
	})
	protocol, err := client.Client()
	if err == nil {
		var skill any
		if skill, err = protocol.Dispense("skill"); err == nil {
			return &hashicorpPlugin{path, mtls, client, skill.(func([]byte) ([]byte, error))}, nil
		}
	}
	client.Kill()
	return nil, err
}

func (h *hashicorpPlugin) call(q question) error { return verdict(h.ask(wire.Marshal(q.ours))) }

func (h *hashicorpPlugin) another() (plugin, error) { return openHashicorp(h.path, h.mtls) }

func (h *hashicorpPlugin) close() { h.client.Kill() }

package wasm

import (
	"context"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// Error numbers of WASI.
const (
	wasiSuccess      = 0
	wasiBadFile      = 8
	wasiNotSupported = 58
)

// linkWASI defines WASI in r. A guest has its three standard files only, and what
// it could do to them would be the one state of an instance outside of its memory
// and globals. They stay as they are: closing one is accepted and does nothing.
func linkWASI(ctx context.Context, r wazero.Runtime) error {
	b := r.NewHostModuleBuilder(wasi_snapshot_preview1.ModuleName)
	wasi_snapshot_preview1.NewFunctionExporter().ExportFunctions(b)
	i32 := api.ValueTypeI32
	b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, s []uint64) {
		if uint32(s[0]) > 2 {
			s[0] = wasiBadFile
		} else {
			s[0] = wasiSuccess
		}
	}), []api.ValueType{i32}, []api.ValueType{i32}).Export("fd_close")
	b.NewFunctionBuilder().WithGoFunction(api.GoFunc(func(_ context.Context, s []uint64) {
		s[0] = wasiNotSupported
	}), []api.ValueType{i32, i32}, []api.ValueType{i32}).Export("fd_renumber")
	_, err := b.Instantiate(ctx)
	return err
}

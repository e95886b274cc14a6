package main

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/valence-rl/valence/core/data/formats"
	"github.com/valence-rl/valence/core/data/records"
	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/sdk"
)

// exported is the result of data export.
type exported struct {
	Out     string         `json:"out"`
	Format  string         `json:"format"`
	Records int            `json:"records"`
	Left    int            `json:"left"` // records that the format cannot hold
	Reasons map[string]int `json:"reasons"`
	Bad     int            `json:"bad"` // rows of the source
}

func (r exported) table(w io.Writer, p palette) {
	fmt.Fprintf(w, "%s %s in %s, as %s\n", p.in(p.bold, "exported"), counted(r.Records, "record"), r.Out, r.Format)
	for _, why := range sortedByCount(r.Reasons) {
		fmt.Fprintf(w, "%s %s: %s\n", p.in(p.yellow, "left out"), counted(r.Reasons[why], "record"), why)
	}
	if r.Bad > 0 {
		fmt.Fprintf(w, "%s %s of the source\n", p.in(p.yellow, "bad"), counted(r.Bad, "row"))
	}
}

func newDataExportCommand(a *app) *cobra.Command {
	r := exported{Reasons: map[string]int{}, Format: "swebench"}
	var force bool
	cmd := &cobra.Command{
		Use:   "export FILE --out FILE",
		Short: "Write records as rows of SWE-bench, or as another records file",
		Long: `Write records as rows of SWE-bench, which other tools read, or as another records file,
such as a compressed one. What is exported, imported again, is the same record: one that
a row of SWE-bench cannot hold whole is left out, counted, and what it would lose is named.`,
		Example: `  valence data export records.jsonl --out rows.jsonl
  valence data export records.jsonl --format records --out records.jsonl.zst`,
		Args: cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.Var(&choice{&r.Format, []string{"swebench", formats.Records}}, "format", "what is written: swebench or records")
	f.StringVar(&r.Out, "out", "", "the `file` to write; .zst and .gz compress it")
	f.BoolVar(&force, "force", false, "replace a file of that name")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := free(r.Out, force); err != nil {
			return err
		}
		out, err := openExport(r.Format, r.Out)
		if err != nil {
			return err
		}
		defer out.discard()
		r.Bad, err = a.rowsOf(cmd.Context(), "exporting", "", args, func(rec *sdk.Record) error {
			err := out.add(rec)
			var no *unfit
			switch {
			case errors.As(err, &no):
				r.Left++
				r.Reasons[no.Error()]++
				return nil
			case err == nil:
				r.Records++
			}
			return err
		})
		if err == nil && r.Records == 0 {
			err = diag.Errorf(diag.KindData, "export", args[0], "no record can be written: %v", sortedByCount(r.Reasons))
		}
		if err == nil {
			err = out.finish()
		}
		if err != nil {
			return err
		}
		if err := a.out.result(r); err != nil {
			return err
		}
		if r.Left > 0 || r.Bad > 0 {
			return statusLosses
		}
		return nil
	}
	return cmd
}

// free refuses a name for a new file that is none, or that is taken.
func free(path string, force bool) error {
	if path == "" {
		return &diag.Diagnostic{Kind: diag.KindConfig, Code: "D011", Summary: "no file to write", Hint: "name it with --out FILE"}
	}
	if _, err := os.Stat(path); err == nil && !force {
		return &diag.Diagnostic{Kind: diag.KindConfig, Code: "D010", Summary: fmt.Sprintf("there is a file %q already", path),
			Hint: "write another one with --out FILE, or replace it with --force"}
	}
	return nil
}

// unfit is a record that a format cannot hold.
type unfit struct{ error }

// export is a file that is being written: it appears under its name by finish.
type export interface {
	add(*sdk.Record) error
	finish() error
	discard()
}

func openExport(format, path string) (export, error) {
	if format == formats.Records {
		if err := records.Discard(path); err != nil {
			return nil, err
		}
		w, _, err := records.Create(path)
		return recordsExport{w, path}, err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return nil, diag.Wrap(diag.KindData, "export", path, err)
	}
	e := &rowsExport{path: path, file: f, buffer: bufio.NewWriterSize(f, 1<<18)}
	e.to = e.buffer
	switch filepath.Ext(path) {
	case ".gz":
		e.packer = gzip.NewWriter(e.buffer)
	case ".zst":
		if e.packer, err = zstd.NewWriter(e.buffer); err != nil {
			return nil, err
		}
	}
	if e.packer != nil {
		e.to = e.packer
	}
	return e, nil
}

type recordsExport struct {
	*records.Writer
	path string
}

func (e recordsExport) add(r *sdk.Record) error {
	err := e.Append(r)
	if errors.Is(err, records.ErrRepeated) {
		return &unfit{records.ErrRepeated}
	}
	return err
}
func (e recordsExport) finish() error { return e.Finish() }
func (e recordsExport) discard()      { e.Close(); records.Discard(e.path) }

type rowsExport struct {
	path   string
	file   *os.File
	buffer *bufio.Writer
	packer io.WriteCloser // nil: not compressed
	to     io.Writer
}

func (e *rowsExport) add(r *sdk.Record) error {
	row, err := formats.SWEBenchRow(r)
	if err != nil {
		return &unfit{err}
	}
	_, err = e.to.Write(append(row, '\n'))
	return diag.Wrap(diag.KindData, "export", e.path, err)
}

func (e *rowsExport) finish() error {
	var err error
	if e.packer != nil {
		err = e.packer.Close()
	}
	err = errors.Join(err, e.buffer.Flush(), e.file.Chmod(0o644), e.file.Sync(), e.file.Close())
	if err == nil {
		err = os.Rename(e.file.Name(), e.path)
	}
	return diag.Wrap(diag.KindData, "export", e.path, err)
}

func (e *rowsExport) discard() {
	e.file.Close()
	if err := os.Remove(e.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return // it is gone by its new name
	}
}

package toolserver

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/sdk/wire"
)

// message is what every message of the protocol can do.
type message interface {
	Encode(*Encoder)
	Decode(*Decoder)
}

func roundTrip(t *rapid.T, in, out message) {
	var e Encoder
	in.Encode(&e)
	var b bytes.Buffer
	if err := WriteFrame(&b, Frame{ID: 7, Kind: KindExec, Body: e.B}); err != nil {
		t.Fatal(err)
	}
	f, err := ReadFrame(&b)
	if err != nil || f.ID != 7 || f.Kind != KindExec {
		t.Fatalf("%+v, %v", f, err)
	}
	d := &Decoder{B: f.Body}
	out.Decode(d)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out); d != "" {
		t.Fatal(d)
	}
	// Cut anywhere, it is malformed and nothing worse.
	cut := &Decoder{B: e.B[:rapid.IntRange(0, len(e.B)-1).Draw(t, "cut")]}
	out.Decode(cut)
	if cut.Err() == nil {
		t.Fatal("a message that was cut counts as whole")
	}
}

var (
	genTexts = rapid.SliceOf(rapid.String()).Filter(func(s []string) bool { return s == nil || len(s) > 0 })
	genNum   = rapid.Uint64()
)

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := func() []string {
			if s := genTexts.Draw(t, "texts"); len(s) > 0 {
				return s
			}
			return nil
		}
		roundTrip(t, &Exec{Shell: rapid.String().Draw(t, "shell"), Args: texts(), Dir: rapid.String().Draw(t, "dir"), Env: texts(),
			Stdin: append([]byte{}, rapid.SliceOf(rapid.Byte()).Draw(t, "stdin")...), Output: genNum.Draw(t, "output")}, &Exec{})
		roundTrip(t, &Result{Output: []byte("x"), ExitCode: rapid.IntRange(0, 255).Draw(t, "code"), TimedOut: rapid.Bool().Draw(t, "timed out"),
			Bytes: rapid.Int64Min(0).Draw(t, "bytes"), Took: 3}, &Result{})
	})
}

func TestFailure(t *testing.T) {
	for _, c := range []struct {
		in   error
		is   error
		text string
	}{
		{nil, nil, ""},
		{errors.New("odd"), nil, "odd"},
		{syscall.ENOSPC, syscall.ENOSPC, "no space left on device"},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT}, fs.ErrNotExist, "open /x: no such file or directory"},
		{&fs.PathError{Op: "read", Path: "/x", Err: ErrTooLarge}, ErrTooLarge, "read /x: larger than the limit"},
		{errors.Join(errors.New("mount a"), syscall.EPERM), syscall.EPERM, "mount a\noperation not permitted"},
	} {
		var e Encoder
		e.failure(c.in)
		d := &Decoder{B: e.B}
		got := d.Failure()
		if d.Err() != nil || (got == nil) != (c.in == nil) {
			t.Fatalf("%v became %v", c.in, got)
		}
		if got != nil && (got.Error() != c.text || (c.is != nil && !errors.Is(got, c.is))) {
			t.Errorf("%v became %v", c.in, got)
		}
	}
}

func TestReadFrame(t *testing.T) {
	for name, b := range map[string]string{
		"cut head": "\x00\x00", "cut body": "\x00\x00\x00\x09\x00\x00\x00\x01\x02ab", "too short": "\x00\x00\x00\x01\x00\x00\x00\x01\x02",
		"too long": "\xff\xff\xff\xff\x00\x00\x00\x01\x02",
	} {
		if f, err := ReadFrame(strings.NewReader(b)); err == nil || err == io.EOF {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
	if _, err := ReadFrame(strings.NewReader("")); err != io.EOF {
		t.Errorf("the end between frames: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	var e Encoder
	e.Changes([]wire.Change{{Path: "a", Data: []byte("x"), Exec: true}, {Path: "b", Deleted: true}})
	f.Add(e.B)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []message{&Exec{}, &Result{}} {
			m.Decode(&Decoder{B: b})
		}
		d := &Decoder{B: b}
		if c := d.Changes(); d.Err() == nil {
			var e Encoder
			e.Changes(c)
			again := &Decoder{B: e.B}
			if diff := cmp.Diff(c, again.Changes()); diff != "" {
				t.Fatal(diff)
			}
		}
		new(Decoder).Failure()
		(&Decoder{B: b}).Failure()
	})
}

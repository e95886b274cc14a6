package first

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/valence-rl/valence/core/sandbox/toolserver"
)

// message is what every message can do.
type message interface {
	Encode(*toolserver.Encoder)
	Decode(*toolserver.Decoder)
}

func roundTrip(t *rapid.T, in, out message) {
	var e toolserver.Encoder
	in.Encode(&e)
	d := &toolserver.Decoder{B: e.B}
	out.Decode(d)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(in, out); d != "" {
		t.Fatal(d)
	}
	// Cut anywhere, it is malformed and nothing worse.
	cut := &toolserver.Decoder{B: e.B[:rapid.IntRange(0, len(e.B)-1).Draw(t, "cut")]}
	out.Decode(cut)
	if cut.Err() == nil {
		t.Fatal("a message that was cut counts as whole")
	}
}

var (
	genTexts = rapid.SliceOf(rapid.String())
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
		roundTrip(t, &Setup{Base: "b", Disk: genNum.Draw(t, "disk"), Binds: []Bind{{Path: "/a", Target: "/b", File: true}, {Path: "/c", Tree: true}},
			Links: texts(), Files: texts(), Filter: []byte{1, 2}, Proc: rapid.Bool().Draw(t, "proc"), MaxProcs: 3,
			Lowers: texts(), Image: true, User: &toolserver.User{UID: rapid.Uint32().Draw(t, "uid"), GID: 7, Groups: []uint32{1, 2}}}, &Setup{})
		roundTrip(t, &Spawn{ID: rapid.Uint32().Draw(t, "id"), Range: true, User: genNum.Draw(t, "user"), Values: texts()}, &Spawn{})
		roundTrip(t, &Spawned{ID: 3, Status: genNum.Draw(t, "status"), Text: rapid.String().Draw(t, "text")}, &Spawned{})
	})
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []message{&Setup{}, &Spawn{}, &Spawned{}} {
			m.Decode(&toolserver.Decoder{B: b})
		}
	})
}

// Whatever this package imports is initialised in every sandbox, and packages are
// initialised in the order of their names as far as their imports allow: see init.
func TestImports(t *testing.T) {
	const module = "github.com/valence-rl/valence/"
	out, err := exec.Command("go", "list", "-deps", module+"core/sandbox/local/internal/first").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range strings.Fields(string(out)) {
		switch {
		case p == module+"core/sandbox/local/internal/first", p == module+"core/sandbox/toolserver", p == module+"sdk/wire", p == "golang.org/x/sys/unix":
		case strings.Contains(strings.SplitN(p, "/", 2)[0], "."):
			t.Errorf("imports %s", p)
		case strings.HasPrefix(p, "net"), p == "runtime/debug", p == "text/template", p == "regexp", p == "log", p == "encoding/json":
			t.Errorf("imports %s, which is initialised late or slowly", p)
		}
	}
}

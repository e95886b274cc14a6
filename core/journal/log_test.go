package journal

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/diag"
)

func opened(t *testing.T, path string) (*Log, []string) {
	t.Helper()
	var ids []string
	l, err := OpenLog(path, func(p Place, e *Episode) error {
		ids = append(ids, e.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, ids
}

// However much of the last episode a killed process had written, the others are there,
// and the next one follows them.
func TestLogWithoutItsEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tries", "a.episodes.jsonl.zst")
	l, ids := opened(t, path)
	if ids != nil {
		t.Fatal(ids)
	}
	noise := make([]byte, 300<<10) // more than a block, and nothing that could be packed
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = "0123456789abcdef"[r.IntN(16)]
	}
	var places []Place
	for i, reason := range []string{"first", strings.Repeat("x", 400<<10), string(noise), "last"} {
		p, err := l.Append(&Episode{ID: fmt.Sprint(i), Reason: reason})
		if err != nil {
			t.Fatal(err)
		}
		places = append(places, p)
	}
	if e, err := l.At(places[2]); err != nil || e.ID != "2" || e.Reason != string(noise) {
		t.Errorf("%.20v, %v", e, err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for e, err := range ReadEpisodes(path) {
		if err != nil || e.ID != fmt.Sprint(n) {
			t.Fatal(e.ID, err)
		}
		n++
	}
	if n != 4 {
		t.Errorf("%d episodes are read", n)
	}
	for at := places[1].From; at <= int64(len(whole)); {
		if err := os.WriteFile(path, whole[:at], 0o644); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i, p := range places {
			if p.From+p.Size <= at {
				want = append(want, fmt.Sprint(i))
			}
		}
		l, got := opened(t, path)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("cut at %d of %d: %s", at, len(whole), d)
		}
		if _, err := l.Append(&Episode{ID: "next"}); err != nil {
			t.Fatal(err)
		}
		l.Close()
		if _, got := opened(t, path); cmp.Diff(append(want, "next"), got) != "" {
			t.Fatalf("cut at %d of %d: then %v", at, len(whole), got)
		}
		if at < places[1].From+places[1].Size || at >= places[3].From {
			at += 3
		} else {
			at += 20011
		}
	}
}

func TestDamagedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.episodes.jsonl.zst")
	l, _ := opened(t, path)
	for range 2 {
		if _, err := l.Append(&Episode{ID: "a", Reason: "because"}); err != nil {
			t.Fatal(err)
		}
	}
	l.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int{0, len(whole) / 4, len(whole)/2 - 1} {
		b := []byte(string(whole))
		b[at] ^= 0x55
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := OpenLog(path, func(Place, *Episode) error { return nil })
		if diag.KindOf(err) != diag.KindData || !strings.Contains(err.Error(), path) {
			t.Errorf("byte %d: %v", at, err)
		}
		if after, _ := os.ReadFile(path); len(after) != len(whole) {
			t.Errorf("byte %d: a damaged log was cut", at)
		}
	}
}

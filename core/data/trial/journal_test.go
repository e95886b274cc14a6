package trial

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

func TestJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	open := func() *Journal {
		t.Helper()
		j, err := OpenJournal(name)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	made := 0
	ask := func(j *Journal, key string) int {
		t.Helper()
		n, err := Recall(j, key, func() (int, error) { made++; return made, nil })
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	j := open()
	if ask(j, "a") != 1 || ask(j, "b") != 2 || ask(j, "a") != 1 {
		t.Error("an answer is not remembered")
	}
	if _, err := Recall(j, "c", func() (int, error) { return 0, errors.New("no") }); err == nil {
		t.Error("an error is an answer")
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	// A line that was cut off is asked for again; what was whole before it is not.
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for cut := 1; cut < 12; cut++ {
		if err := os.WriteFile(name, whole[:len(whole)-cut], 0o600); err != nil {
			t.Fatal(err)
		}
		made = 10
		j = open()
		if a, b := ask(j, "a"), ask(j, "b"); a != 1 || b != 11 {
			t.Errorf("cut by %d: %d and %d", cut, a, b)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		j = open()
		if b := ask(j, "b"); b != 11 {
			t.Errorf("cut by %d: the new answer is lost: %d", cut, b)
		}
		if asked, known := j.Remembered(); asked != 1 || known != 1 {
			t.Errorf("%d of %d", known, asked)
		}
		j.Close()
	}
}

package process

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const good = "1|1|unix|/tmp/socket|grpc|MIIB"

func TestHandshake(t *testing.T) {
	for _, c := range []struct{ line, words string }{
		{good, ""},
		{good + "\r\n", ""},
		{good + "|true", ""},
		{"", "no handshake"},
		{"Hello, world!", `"Hello, world!" on standard output is no handshake`},
		{"1|1|unix|/tmp/socket|grpc", "no handshake"},
		{"2|1|unix|/tmp/socket|grpc|MIIB", "go-plugin's handshake"},
		{"1|2|unix|/tmp/socket|grpc|MIIB", `speaks version "2" of the process protocol, this host 1`},
		{"1|x|unix|/tmp/socket|grpc|MIIB", `speaks version "x"`},
		{"1|1|tcp|127.0.0.1:1|grpc|MIIB", `"grpc" over "tcp"`},
		{"1|1|unix|/tmp/socket|netrpc|MIIB", `"netrpc" over "unix"`},
		{"1|1|unix|/tmp/socket|grpc|", "no certificate"},
	} {
		err := checkHandshake(c.line)
		if c.words == "" && err != nil || c.words != "" && (err == nil || !strings.Contains(err.Error(), c.words)) {
			t.Errorf("%q: %v, want %q", c.line, err, c.words)
		}
	}
}

func FuzzHandshake(f *testing.F) {
	f.Add(good)
	f.Add("1|2|unix")
	f.Fuzz(func(t *testing.T, line string) {
		err := checkHandshake(line)
		if err == nil && !strings.HasPrefix(strings.TrimSpace(line), "1|1|unix|") {
			t.Errorf("takes %q", line)
		}
		if err != nil && len(err.Error()) > 1000 {
			t.Errorf("%d bytes of error", len(err.Error()))
		}
	})
}

// TestFirstLine cuts what is printed anywhere: go-plugin gets the handshake and
// nothing else, the others get the rest, and nothing is lost.
func TestFirstLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]string{good + "\n", "junk\n", "", strings.Repeat("x", maxLine+3)}).Draw(t, "first")
		rest := rapid.StringMatching(`[a\n|]{0,20}`).Draw(t, "rest")
		var others bytes.Buffer
		f := newFirstLine(&others)
		all := first + rest
		for len(all) > 0 {
			n := rapid.IntRange(1, len(all)).Draw(t, "cut")
			io.WriteString(f, all[:n])
			all = all[n:]
		}
		f.end()
		line, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		if first == good+"\n" {
			if string(line) != first || others.String() != rest || f.refused != nil {
				t.Fatalf("go-plugin got %q, the others %q, %v", line, &others, f.refused)
			}
			return
		}
		if len(line) > 0 {
			t.Fatalf("go-plugin got %q", line)
		}
		if f.refused != nil && others.String() != first+rest {
			t.Fatalf("lost some of %q: %q", first+rest, &others)
		}
	})
}

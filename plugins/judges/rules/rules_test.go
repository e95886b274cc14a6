package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/valence-rl/valence/sdk"
	"github.com/valence-rl/valence/sdk/sdktest"
)

func trace(file, last string) string {
	return "Traceback (most recent call last):\n  File \"/workspace/reproduce.py\", line 2, in <module>\n    f()\n  File \"" + file + "\", line 3, in f\n    return 1\n" + last + "\n"
}

func TestJudge(t *testing.T) {
	const (
		script = "/workspace/reproduce.py"
		shop   = "/workspace/shop.py"
		value  = "clamp(3, 0, 2) gives 0, but it should be 2."
		raises = "lookup('z') raises KeyError."
	)
	failed := func(out string) sdk.Log { return sdk.Log{ExitCode: 1, Output: out} }
	clean := sdk.Log{Output: "fine\n"}
	tests := []struct {
		name          string
		issue         string
		before, after sdk.Log
		want          bool
		why           string
	}{
		{"assertion, then clean", value, failed(trace(script, "AssertionError")), clean, true, "fails with AssertionError"},
		{"the exception named", raises, failed(trace(shop, "KeyError: 'z'")), clean, true, "shows KeyError"},
		{"the exception named, caught and printed", raises, failed("got KeyError\n"), clean, true, "shows KeyError"},
		{"with its module's name", "It dies with json.JSONDecodeError here", failed(trace(shop, "json.decoder.JSONDecodeError: Expecting value: line 1")), clean, true, "shows JSONDecodeError"},
		{"exit status alone", value, failed("wrong: 0\n"), clean, true, "without saying why"},
		{"the exception that is asked for need not show", "clamp(3, 2, 0) should raise ValueError but returns 2", failed(trace(script, "AssertionError")), clean, true, ""},

		{"fails in both", value, failed(trace(script, "AssertionError")), failed(trace(script, "AssertionError: still")), false, "also fails on the fixed code, with AssertionError: still"},
		{"passes in both", value, clean, clean, false, "succeeds on the original code"},
		{"passes, then fails", value, clean, failed(""), false, "succeeds on the original code"},
		{"says reproduced and exits 0", value, sdk.Log{Output: "Issue reproduced!\nAssertionError\n"}, clean, false, "succeeds on the original code"},
		{"another exception", raises, failed(trace(shop, "TypeError: x")), clean, false, "speaks of KeyError, but the log of the original code shows TypeError: x"},
		{"a longer name is another", raises, failed(trace(shop, "MyKeyError: x")), clean, false, "speaks of KeyError"},
		{"no exception where one is named", raises, failed("wrong\n"), clean, false, "shows no exception"},
		{"syntax error in the script", value, failed("  File \"/workspace/reproduce.py\", line 1\n    def\n       ^\nSyntaxError: invalid syntax\n"), clean, false, "reason of its own: SyntaxError"},
		{"indentation error in the script", value, failed("  File \"/workspace/reproduce.py\", line 1\n    x\nIndentationError: unexpected indent\n"), clean, false, "reason of its own: IndentationError"},
		{"module missing", value, failed(trace(script, "ModuleNotFoundError: No module named 'numpy'")), clean, false, "reason of its own: ModuleNotFoundError"},
		{"name missing in the script", value, failed(trace(script, "NameError: name 'clmp' is not defined")), clean, false, "reason of its own: NameError"},
		{"import of what is not there", value, failed(trace(script, "ImportError: cannot import name 'klamp' from 'shop' (/workspace/shop.py)")), clean, false, "reason of its own: ImportError"},
		{"limit on the original code", value, sdk.Log{TimedOut: true, ExitCode: 137}, clean, false, "did not end on the original code"},
		{"limit on the fixed code", value, failed(""), sdk.Log{TimedOut: true, ExitCode: 137}, false, "did not end on the fixed code"},
		{"signal", value, sdk.Log{ExitCode: 139}, clean, false, "killed by a signal"},
		{"signal on the fixed code", value, failed(""), sdk.Log{ExitCode: 134}, false, "also fails on the fixed code"},

		{"syntax error in the code", value, failed(trace(shop, "SyntaxError: invalid syntax")), clean, true, ""},
		{"name missing in the code", value, failed(trace(shop, "NameError: name 'lo' is not defined")), clean, true, ""},
		{"the issue is about that name", "from shop import clip does not work", failed(trace(script, "ImportError: cannot import name 'clip' from 'shop'")), clean, true, ""},
		{"the issue is about that module", "import shop.extra fails with ModuleNotFoundError", failed(trace(script, "ModuleNotFoundError: No module named 'shop.extra'")), clean, true, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v, err := sdktest.Judge(t.Context(), skill{}, nil, &sdk.JudgeRequest{Issue: tt.issue, Before: tt.before, After: tt.after})
			if err != nil {
				t.Fatal(err)
			}
			if v.Verdict != tt.want || !strings.Contains(v.Rationale, tt.why) {
				t.Errorf("%v, want %v: %s", v.Verdict, tt.want, v.Rationale)
			}
			if v.Confidence < 0.5 || v.Confidence > 1 || v.Rationale == "" {
				t.Errorf("confidence %v, rationale %q", v.Confidence, v.Rationale)
			}
		})
	}
}

func TestSymptoms(t *testing.T) {
	for _, tt := range []struct {
		issue string
		want  []string
	}{
		{"", nil},
		{"It raises `ValueError`.", []string{"ValueError"}},
		{"ValueError: bad. And then a ValueError again, KeyError('x')", []string{"ValueError", "KeyError"}},
		{"It should raise ValueError.", nil},
		{"It should not raise ValueError.", []string{"ValueError"}},
		{"Expected a ValueError, got KeyError.", []string{"KeyError"}},
		{"It returns 3 instead of raising ValueError.", nil},
		{"It raises KeyError instead of ValueError.", []string{"KeyError"}},
		{"A ValueError is expected but we get KeyError", []string{"KeyError"}},
		{"ValueError expected.", nil},
		{"ValueError should be raised", nil},
		{"A ValueError should not come here", []string{"ValueError"}},
		{"ValueError: expected 3", []string{"ValueError"}},
		{"It should be 3. ZeroDivisionError comes out", []string{"ZeroDivisionError"}},
		{"StopIteration escapes; an Error, an Exception", []string{"StopIteration"}},
		{"a DeprecationWarning from pkg.errors.PkgException", []string{"DeprecationWarning", "PkgException"}},
		{"an error", nil},
	} {
		if got := symptoms(tt.issue); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %v, want %v", tt.issue, got, tt.want)
		}
	}
}

func TestLastError(t *testing.T) {
	log := trace("/a/b.py", "ValueError: one") + "\nDuring handling of the above exception, another exception occurred:\n\n" + trace("/a/c.py", "pkg.mod.OtherError: two\n  more") + "done: yes\n"
	if got, want := lastError(log), (failure{"OtherError", "two", "/a/c.py"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := lastError("ValueError: printed by hand\n"); got != (failure{}) {
		t.Errorf("%+v without a traceback", got)
	}
	if got := lastError(strings.ReplaceAll(trace("/a/b.py", "KeyError: 'x'"), "\n", "\r\n")); got.name != "KeyError" {
		t.Errorf("%+v", got)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add("should raise KeyError", trace("/workspace/reproduce.py", "NameError: name 'x"), int64(1))
	f.Add(" .;!", "  File \"", int64(0))
	f.Fuzz(func(t *testing.T, issue, log string, code int64) {
		v, err := skill{}.Judge(t.Context(), nil, &sdk.JudgeRequest{Issue: issue, Before: sdk.Log{Output: log, ExitCode: code}, After: sdk.Log{Output: log}})
		if err != nil || v.Rationale == "" || v.Verdict && (code == 0 || code >= 128) {
			t.Fatalf("%+v, error %v", v, err)
		}
	})
}

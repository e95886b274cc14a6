// Package testlog reads what test runners print. [Parse] takes a log and the name
// of its format, and gives each test's status.
//
// There are two families of formats. Names such as "pytest", "gotest_json" and
// "junit" are read by each runner's own rules: whole ids, the worst of
// contradictory statuses, output of tests in between, terminals' colours. Names
// that begin with "parse_log_" are those of SWE-bench, version 5.0.2, and give what
// its harness gives, oddities included: published verdicts rest on them. A name
// that is not in the first family is looked up in the second ("django" is
// "parse_log_django").
//
// A log is hostile: the tested code can print whatever it likes. Nothing here
// fails, backtracks or recurses on what a log holds, and ids are bounded in length
// and number. A log is cut anywhere, has any bytes, and lines of any length.
//
// It is part of the guest: standard library only, and little of that.
package testlog

import (
	"slices"
	"strconv"
	"strings"
)

// format is how one kind of log is read. read gets a log of which every line ends
// in "\n", and never fails: what it cannot read it leaves out.
type format struct {
	name string
	read func(log string, r *Results)
}

// UnknownFormatError says that no format has the name.
type UnknownFormatError struct {
	Name string
	Near string // the nearest name that there is; "" if none is near
}

func (e *UnknownFormatError) Error() string {
	s := "read test log: " + strconv.Quote(e.Name) + ": no such format"
	if e.Near != "" {
		s += "; did you mean " + strconv.Quote(e.Near) + "?"
	}
	return s
}

// Parse reads a log of the format named. The error is an [*UnknownFormatError].
func Parse(name, log string) (*Results, error) {
	f := find(name)
	if f == nil {
		return nil, &UnknownFormatError{Name: name, Near: near(name)}
	}
	r := new(Results)
	f.read(Newlines(log), r)
	return r, nil
}

// Known reports whether [Parse] knows the format.
func Known(name string) bool { return find(name) != nil }

// Official reports whether the name is that of a rule of SWE-bench's harness, by
// which its records are graded.
func Official(name string) bool {
	f := find(name)
	return f != nil && strings.HasPrefix(f.name, harness)
}

// Names lists the formats, sorted.
func Names() []string {
	var out []string
	for _, f := range formats() {
		out = append(out, f.name)
	}
	slices.Sort(out)
	return out
}

// harness begins the names of SWE-bench's formats.
const harness = "parse_log_"

func find(name string) *format {
	all := formats()
	for _, want := range []string{name, harness + name} {
		for i := range all {
			if all[i].name == want {
				return &all[i]
			}
		}
	}
	return nil
}

// near finds the name that differs least from one that is not there: in at most a
// third of its letters.
func near(name string) string {
	name = name[:min(len(name), 64)]
	best, least := "", max(len(name)/3, 1)+1
	for _, f := range formats() {
		for _, n := range []string{f.name, strings.TrimPrefix(f.name, harness)} {
			if d := distance(name, n); d < least {
				best, least = f.name, d
			}
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			d := corner
			if a[i] != b[j] {
				d = 1 + min(corner, row[j], row[j+1])
			}
			corner, row[j+1] = row[j+1], d
		}
	}
	return row[len(b)]
}

// formats is the table of all there are; docs/grading.md says how to add one.
func formats() []format { return table[:] }

var table = [...]format{
	{"cargo", readCargo},
	{"ctrf", readCTRF},
	{"gotest", readGoTest},
	{"gotest_json", readGoTestJSON},
	{"jest", readJest},
	{"junit", readJUnit},
	{"mocha", readMocha},
	{"pytest", readPytest},
	{"unittest", readUnittest},
	{"vitest", readVitest},

	// SWE-bench's, by runner; the comment names the repositories.
	{"parse_log_pytest", harnessPytest}, // pytest
	{"parse_log_pytest_options", harnessPytestOptions},
	{"parse_log_pytest_v2", harnessPytestV2},
	{"parse_log_astroid", harnessPytest},
	{"parse_log_astropy", harnessPytestV2},
	{"parse_log_django", harnessDjango},
	{"parse_log_flask", harnessPytest},
	{"parse_log_marshmallow", harnessPytest},
	{"parse_log_matplotlib", harnessMatplotlib},
	{"parse_log_pvlib", harnessPytest},
	{"parse_log_pydicom", harnessPytestOptions},
	{"parse_log_pylint", harnessPytestOptions},
	{"parse_log_pyvista", harnessPytest},
	{"parse_log_requests", harnessPytestOptions},
	{"parse_log_scikit", harnessPytestV2},
	{"parse_log_seaborn", harnessSeaborn},
	{"parse_log_sphinx", harnessPytestV2},
	{"parse_log_sqlfluff", harnessPytest},
	{"parse_log_sympy", harnessSympy},
	{"parse_log_xarray", harnessPytest},
	{"parse_log_ant", harnessAnt},               // lombok
	{"parse_log_cargo", harnessCargo},           // axum, bat, coreutils, nushell, ripgrep, ruff, tokio
	{"parse_log_cucumber", harnessCucumber},     // jekyll
	{"parse_log_doctest", harnessDoctest},       // nlohmann/json
	{"parse_log_googletest", harnessGoogletest}, // fmt
	{"parse_log_gotest", harnessGoTest},         // caddy, gin, hugo, prometheus, terraform
	{"parse_log_gradle_custom", harnessGradle},  // lucene, rxjava
	{"parse_log_jest", harnessJest},             // babel, docusaurus
	{"parse_log_jest_json", harnessJestJSON},    // immutable-js
	{"parse_log_jq", harnessJq},
	{"parse_log_karma", harnessKarma}, // preact
	{"parse_log_maven", harnessMaven}, // druid, gson, javaparser
	{"parse_log_micropython_test", harnessMicropython},
	{"parse_log_minitest", harnessMinitest},            // jekyll
	{"parse_log_phpunit", harnessPHPUnit},              // carbon, laravel, php-cs-fixer, phpspreadsheet
	{"parse_log_redis", harnessRedis},                  // redis, valkey
	{"parse_log_rspec_transformed_json", harnessRSpec}, // fastlane, fpm, rubocop
	{"parse_log_ruby_unit", harnessRubyUnit},           // faker, fluentd
	{"parse_log_tap", harnessTAP},                      // axios, three.js
	{"parse_log_vitest", harnessVitest},                // vuejs
}

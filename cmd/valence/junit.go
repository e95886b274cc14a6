package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/valence-rl/valence/core/diag"
	"github.com/valence-rl/valence/core/examine"
	"github.com/valence-rl/valence/sdk/sdktest"
)

// The elements of JUnit's report that continuous integration reads: a suite is a
// plugin, a case is a check.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Time     float64     `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string     `xml:"name,attr"`
		Class   string     `xml:"classname,attr"`
		Failure *junitText `xml:"failure,omitempty"`
		Error   *junitText `xml:"error,omitempty"`
		Skipped *junitText `xml:"skipped,omitempty"`
	}
	junitText struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeJUnit writes the findings of all plugins to a file, whole or not at all. A
// plugin that could not be examined is a suite with one case, an error.
func writeJUnit(name string, reports []*examine.Report, refused []refusal) error {
	var doc junitSuites
	for _, r := range reports {
		s := junitSuite{Name: r.Name + " " + r.Version, Tests: len(r.Checks), Failures: r.Failed, Time: r.Seconds}
		for _, c := range r.Checks {
			k := junitCase{Name: c.Check, Class: r.Name}
			switch c.Status {
			case sdktest.Failed:
				var all []string
				for _, f := range c.Faults {
					all = append(all, f.String())
				}
				k.Failure = &junitText{readable(c.String()), readable(strings.Join(all, "\n"))}
			case sdktest.Skipped:
				s.Skipped++
				k.Skipped = &junitText{Message: readable(c.Why)}
			}
			s.Cases = append(s.Cases, k)
		}
		doc.Suites = append(doc.Suites, s)
	}
	for _, r := range refused {
		said := r.err.Error()
		doc.Suites = append(doc.Suites, junitSuite{Name: r.ref, Tests: 1, Errors: 1, Cases: []junitCase{
			{Name: "load", Class: r.ref, Error: &junitText{readable(firstLine(said)), readable(said)}},
		}})
	}
	text, err := xml.MarshalIndent(doc, "", "  ")
	if err != nil {
		return diag.Wrap(diag.KindUnknown, "write JUnit report", name, err)
	}
	tmp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*.tmp")
	if err != nil {
		return diag.Wrap(diag.KindConfig, "write JUnit report", name, err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.WriteString(xml.Header + string(text) + "\n")
	if cerr := tmp.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chmod(tmp.Name(), 0o644)
	}
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	return diag.Wrap(diag.KindConfig, "write JUnit report", name, err)
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

// readable leaves out what XML cannot hold.
func readable(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' && c != '\n' && c != '\t' || c == utf8.RuneError || c == 0xfffe || c == 0xffff {
			return '?'
		}
		return c
	}, s)
}

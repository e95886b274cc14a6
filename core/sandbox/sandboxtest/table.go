package sandboxtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/valence-rl/valence/core/sandbox"
)

// Attack is a way out of a sandbox, or a way to harm those beside it.
type Attack struct {
	Name string
	Test string   // the obligation of the suite that tries it
	Lost []string // names in Isolation.Missing that say it is not contained
}

// Attacks are those that the suite tries.
func Attacks() []Attack {
	return []Attack{
		{"connections out, and to the host's loopback", "Network", nil},
		{"the host's abstract sockets", "Network", nil},
		{"other families of sockets: AF_VSOCK, AF_ALG, AF_PACKET", "Network", nil},
		{"names of the host and its network interfaces", "Network", []string{"machine", "interfaces"}},
		{"writing to /proc/sys, /proc/sysrq-trigger, /dev/kmsg", "Kernel", nil},
		{"the program of the first process, /proc/1/exe", "Kernel", nil},
		{"tracing the first process", "Kernel", nil},
		{"user namespaces, mounts, keyctl, bpf, io_uring", "Kernel", nil},
		{"the kernel's command line", "Kernel", []string{"kernel"}},
		{"environments of the first process and of the host", "Secrets", nil},
		{"seeing the host's processes", "Secrets", []string{"processes"}},
		{"inherited descriptors", "Descriptors", nil},
		{"reading and writing the host's files", "HostFiles", nil},
		{"seeing that the host's files exist", "HostFiles", []string{"names"}},
		{"host paths in mountinfo", "HostFiles", []string{"mountinfo", "names"}},
		{"links, hard and symbolic, out of the workspace through Read and Write", "FileAttacks", nil},
		{"links and odd modes in the way of Diff", "DiffAttacks", nil},
		{"600 processes", "Processes", []string{"pids"}},
		{"more memory than the limit, by one process or by many", "Memory", []string{"memory", "first process"}},
		{"more disk than the limit, in bytes or in files", "Disk", []string{"disk"}},
		{"more CPU than the share", "CPU", []string{"cpu"}},
		{"a hog beside a victim", "Fairness", []string{"cpu"}},
		{"endless and binary output", "Output", nil},
		{"surviving a timeout", "Deadline", nil},
		{"background processes that hold a command up", "Background", nil},
		{"zombies", "Orphans", nil},
		{"surviving the sandbox and the driver", "Leftovers", nil},
	}
}

// columns of the table, of all drivers.
var columns = []string{"namespaces", "ordinary user", "no fresh /proc", "no control groups", "disk", "bare", "pod", "pod, CPUs of its own"}

// UpdateTable, in the environment, makes Table write the page instead of comparing it.
const UpdateTable = "VALENCE_UPDATE_TABLE"

// Table compares the table of page with what drivers say of themselves, which the
// suite holds them to. Of a column that levels lacks, what the page says is taken:
// another driver's test compares it.
func Table(t *testing.T, page string, levels map[string]sandbox.Isolation) {
	t.Helper()
	const begin, end = "<!-- levels: written by TestTable -->\n", "<!-- end -->\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, also := strings.Cut(rest, end)
	if !ok || !also {
		t.Fatal("the page has no place for the table")
	}
	for name := range levels {
		if !slices.Contains(columns, name) {
			t.Fatalf("the table has no column %q", name)
		}
	}
	want := table(levels, got)
	if os.Getenv(UpdateTable) != "" {
		if err := os.WriteFile(page, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s differs (%s=1 writes it):\n%s", page, UpdateTable, d)
	}
}

// table is the Markdown, in which columns that levels lacks are as in written.
func table(levels map[string]sandbox.Isolation, written string) string {
	cells, said := parse(written)
	var out, notes strings.Builder
	out.WriteString("| attack | test | " + strings.Join(columns, " | ") + " |\n|---|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, a := range Attacks() {
		fmt.Fprintf(&out, "| %s | %s |", a.Name, a.Test)
		for _, n := range columns {
			level, known := levels[n]
			if !known {
				out.WriteString(" " + cells[a.Name][n] + " |")
				continue
			}
			cell := "contained"
			for _, l := range a.Lost {
				if _, missing := level.Lacks(l); missing {
					cell = "**not** (" + l + ")"
				}
			}
			out.WriteString(" " + cell + " |")
		}
		out.WriteString("\n")
	}
	for _, n := range columns {
		if _, known := levels[n]; !known {
			notes.WriteString(said[n])
			continue
		}
		if len(levels[n].Missing) == 0 {
			continue
		}
		fmt.Fprintf(&notes, "\n%s (`%s`) reports as missing:\n\n", n, levels[n].Level)
		for _, m := range levels[n].Missing {
			notes.WriteString("- " + m + "\n")
		}
	}
	return out.String() + notes.String()
}

// parse takes a table apart: the cells by attack and column, and the notes by column.
func parse(written string) (cells map[string]map[string]string, notes map[string]string) {
	cells, notes = map[string]map[string]string{}, map[string]string{}
	var names []string
	column := ""
	for line := range strings.Lines(written) {
		switch {
		case strings.HasPrefix(line, "| attack "):
			names = split(line)
		case strings.HasPrefix(line, "|--"):
		case strings.HasPrefix(line, "|"):
			row := map[string]string{}
			for i, c := range split(line) {
				if i < len(names) {
					row[names[i]] = c
				}
			}
			cells[row["attack"]] = row
		default:
			if n, _, ok := strings.Cut(line, " (`"); ok && strings.HasSuffix(line, "reports as missing:\n") {
				column = n
				notes[column] = "\n" + line + "\n"
			} else if strings.HasPrefix(line, "- ") {
				notes[column] += line
			}
		}
	}
	return cells, notes
}

func split(row string) []string {
	f := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), "|")
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	return f
}

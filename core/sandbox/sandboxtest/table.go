package sandboxtest

import (
	"fmt"
	"strings"

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
		{"names of the host and its network interfaces", "Network", []string{"machine"}},
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
		{"more memory than the limit, by one process or by many", "Memory", []string{"memory"}},
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

// Table is a Markdown table of what each level contains, by the drivers' own account,
// which the suite holds them to. names are the columns.
func Table(names []string, levels map[string]sandbox.Isolation) string {
	var out, notes strings.Builder
	out.WriteString("| attack | test | " + strings.Join(names, " | ") + " |\n|---|---|" + strings.Repeat("---|", len(names)) + "\n")
	for _, a := range Attacks() {
		fmt.Fprintf(&out, "| %s | %s |", a.Name, a.Test)
		for _, n := range names {
			cell := "contained"
			for _, l := range a.Lost {
				if _, missing := levels[n].Lacks(l); missing {
					cell = "**not** (" + l + ")"
				}
			}
			out.WriteString(" " + cell + " |")
		}
		out.WriteString("\n")
	}
	for _, n := range names {
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

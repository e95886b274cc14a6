package pocket

import (
	"fmt"
	"strings"
)

// contextLines surround a hunk, as git has it.
const contextLines = 3

// replaced is a git-style diff of a file in which lines were replaced one for one;
// "" if none was. It has no index line: blobs are named nowhere here, and their
// digits would cost a small policy a tenth of its context.
func replaced(path string, before, after []string) string {
	var b strings.Builder
	for i := 0; i < len(before); i++ {
		if before[i] == after[i] {
			continue
		}
		if b.Len() == 0 {
			fmt.Fprintf(&b, "diff --git a/%s b/%s\n--- a/%s\n+++ b/%s\n", path, path, path, path)
		}
		first, last := max(0, i-contextLines), i
		for j := i + 1; j < len(before) && j <= last+2*contextLines+1; j++ {
			if before[j] != after[j] {
				last = j
			}
		}
		end := min(len(before), last+contextLines+1)
		fmt.Fprintf(&b, "@@ -%d,%d +%d,%d @@%s\n", first+1, end-first, first+1, end-first, heading(before[:first]))
		hunk(&b, before[first:end], after[first:end])
		i = end - 1
	}
	return b.String()
}

// hunk writes runs of changed lines as git does: what goes, then what comes.
func hunk(b *strings.Builder, before, after []string) {
	for i := 0; i < len(before); {
		if before[i] == after[i] {
			b.WriteString(" " + before[i] + "\n")
			i++
			continue
		}
		j := i
		for ; j < len(before) && before[j] != after[j]; j++ {
			b.WriteString("-" + before[j] + "\n")
		}
		for ; i < j; i++ {
			b.WriteString("+" + after[i] + "\n")
		}
	}
}

// heading names the function that a hunk is in: the last line above it that
// starts with a letter.
func heading(above []string) string {
	for i := len(above) - 1; i >= 0; i-- {
		if above[i] != "" && letter(above[i][0], false) {
			return " " + above[i]
		}
	}
	return ""
}

// created is a git-style diff that brings a new file of whole lines.
func created(path, text string) string {
	lines := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	return fmt.Sprintf("diff --git a/%s b/%s\nnew file mode 100644\n--- /dev/null\n+++ b/%s\n@@ -0,0 +1,%d @@\n+%s\n",
		path, path, path, len(lines), strings.Join(lines, "+"))
}

package skillbay_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestREADME: every Go snippet of README.md is compiled and, where it can be,
// run: it stands, indentation aside, in an example of this package. The first is
// a whole program; its package and function bear other names there.
func TestREADME(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	paths, err := filepath.Glob("example*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	examples := make(map[string][]string, len(paths))
	for _, path := range paths {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		examples[path] = trimmedLines(string(source))
	}

	snippets := goSnippets(strings.ReplaceAll(string(readme), "\r\n", "\n"))
	require.NotEmpty(t, snippets)
	renamed := strings.NewReplacer("package main", "package skillbay_test", "func main()", "func Example()")
	for _, snippet := range snippets {
		lines := trimmedLines(renamed.Replace(snippet))
		found := slices.ContainsFunc(paths, func(path string) bool { return containsRun(examples[path], lines) })
		assert.True(t, found, "no example contains this snippet of README.md:\n%s", snippet)
	}
}

// goSnippets returns the contents of all ```go fences.
func goSnippets(markdown string) []string {
	var snippets []string
	for {
		_, rest, found := strings.Cut(markdown, "\n```go\n")
		if !found {
			return snippets
		}
		snippet, after, _ := strings.Cut(rest, "\n```\n")
		snippets = append(snippets, snippet)
		markdown = after
	}
}

// trimmedLines returns the lines of a text without indentation.
func trimmedLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line) // also a carriage return
	}
	return lines
}

// containsRun reports whether run stands in lines without a gap.
func containsRun(lines, run []string) bool {
	for i := 0; i+len(run) <= len(lines); i++ {
		if slices.Equal(lines[i:i+len(run)], run) {
			return true
		}
	}
	return false
}

package skillbay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shellCodes returns the commands of the shell blocks of a body.
func shellCodes(body string) []string {
	var found []string
	for _, block := range findShellBlocks(body) {
		found = append(found, block.code)
	}
	return found
}

func TestFindShellBlocks(t *testing.T) {
	tests := []struct {
		name string // why the row exists
		body string
		want []string
	}{
		{"nothing", "", nil},
		{"at the start of the body", "!`a`", []string{"a"}},
		{"after white space", "x !`a`\ty\t!`b`\n!`c` z\u3000!`d`", []string{"a", "b", "c", "d"}},
		{"not after other text", "x!`a` (!`b` !!`c` >!`d` \\!`e`", nil},
		{"the code span touches the mark", "! `a`", nil},
		{"more backticks may delimit", "!``echo `date` ``", []string{"echo `date` "}},
		{"as many must close", "!``a` x", nil},
		{"and no more", "`x``` !`a`", nil},
		{"an open one is text", "!`a", nil},
		{"one after an open run", "`` !`a`", []string{"a"}},
		{"over two lines", "!`a \\\n  b`", []string{"a \\\nb"}},
		{"never over a blank line", "!`a\n\nb`", nil},
		{"in a heading", "# Now: !`a`", []string{"a"}},
		{"in a list, nested and after a blank line", "- !`a`\n  - !`b`\n\n    !`c`\n1. x\n\n   !`d`", []string{"a", "b", "c", "d"}},
		{"in a block quote", "> !`a`\n> !`b\n> c`", []string{"a", "b\nc"}},
		{"in a table cell", "| x | y |\n|---|---|\n| !`a` | z |", []string{"a"}},
		{"deep indentation goes on with a paragraph", "x\n      !`a`", []string{"a"}},

		{"a fence", "```!\na\nb\n```", []string{"a\nb\n"}},
		{"a fence with words for readers", "```! bash\na\n```\n```!sh\nb\n```", []string{"a\n", "b\n"}},
		{"a fence without a line", "```!\n```", []string{""}},
		{"a fence closed by more", "```!\na\n`````  \n!`b`", []string{"a\n", "b"}},
		{"a fence that is never closed", "```!\na\n", nil},
		{"a fence that its list item ends", "- ```!\n  a\n\nb\n\n!`c`", []string{"c"}},
		{"indentation of the fence goes", "   ```!\n   a\n     b\n c\n   ```", []string{"a\n  b\nc\n"}},
		{"a fence in a list item", "1. x\n   ```!\n   a\n   ```\n2. y", []string{"a\n"}},
		{"a fence in a block quote", "> ```!\n> a\n> ```", []string{"a\n"}},
		{"a fence of other backticks or tildes", "````!\na\n````\n~~~!\nb\n~~~", nil},
		{"a fence whose mark does not touch", "``` !\na\n```", nil},
		{"no fence: backticks in its line", "```! a ```\n!`b`", []string{"b"}},

		{"in a fence", "```\n!`a`\n```\n~~~ x\n!`b`\n~~~\n`````\n!`c`\n```\n!`d`\n`````", nil},
		{"a tilde does not close backticks", "```\n~~~\n!`a`\n```", nil},
		{"an info string does not close", "```\n``` x\n!`a`\n```", nil},
		{"a fence never closed", "```\n!`a`", nil},
		{"a shell fence in a fence", "````\n```!\na\n```\n````", nil},
		{"a fence interrupts a paragraph", "x\n```\n!`a`\n```", nil},
		{"after a fence", "```\nx\n```\n!`a`", []string{"a"}},
		{"a fence in a list item", "- x\n\n  ```\n  !`a`\n  ```\n  !`b`", []string{"b"}},
		{"a fence that starts an item", "- ```\n  !`a`\n  ```", nil},
		{"a fence in a quote ends with it", "> ```\n> !`a`\n\n```\n!`b`\n```", nil},
		{"a fence in an item ends with it", "- ```\n  !`a`\n\nx\n```\n!`b`\n```", nil},

		{"indented code", "x\n\n    !`a`\n\ty\n\n\t!`b`\n", nil},
		{"indented code at the start", "    !`a`", nil},
		{"indented code after a heading or rule", "# x\n    !`a`\n---\n    !`b`\nx\n===\n    !`c`", nil},
		{"indented code in an item", "- x\n\n      !`a`", nil},
		{"an item that begins with indented code", "-     !`a`", nil},
		{"indented code after an empty item", "-\n\n     !`a`", nil},
		{"indented code in a quote", ">     !`a`\n>\n> \t\t!`b`", nil},
		{"a year is no item", "x\n2024. y\n\n      !`a`", nil},
		{"an empty bullet in a paragraph is no item", "x\n*\n\n     !`a`", nil},
		{"an empty bullet in a paragraph opens nothing", "x\n*\n      !`a`", []string{"a"}},
		{"a rule is no item", "* * *\n\n      !`a`", nil},

		{"in a code span", "`` !`a` ``", nil},
		{"in a code span over lines", "`x\n!`a` y`", nil},
		{"a code span of a lazy line", "> `x\n!`a` y`", nil},
		{"a heading is a text of its own", "# `\n`x !`a` y`", nil},
		{"an underline ends a text", "`\n===\n`x !`a` y`", nil},
		{"an item is a text of its own", "- `\n- `x !`a` y`", nil},
		{"an escaped backtick opens nothing", "\\`x !`a` y", []string{"a"}},
		{"a backslash in a code span is text", "`x\\` !`a`", []string{"a"}},

		{"an HTML comment", "<!-- !`a` -->\n<!--\n\n!`b`\n-->\nx <!-- !`c` --> !`d`", []string{"d"}},
		{"a fence in a comment opens nothing", "<!--\n```\n-->\n```\n!`a`\n```", nil},
		{"preformatted HTML", "<pre>\n\n!`a`\n</pre>\n!`b`", []string{"b"}},
		{"not every tag that begins alike", "<prefix>\n!`a`", []string{"a"}},
		{"an open comment is text", "x <!-- !`a`", []string{"a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, shellCodes(tt.body), "body %q", tt.body)
		})
	}
}

// A body of hostile nesting is read in time that grows with its length.
func TestFindShellBlocksGivesUpOnDeepNesting(t *testing.T) {
	nest := strings.Repeat("> ", maxNesting) + "x\n\n!`a`"
	assert.Equal(t, []string{"a"}, shellCodes(nest))
	assert.Empty(t, shellCodes("> "+nest))
	assert.Empty(t, shellCodes(strings.Repeat("+ - ", 100_000)+"\n"+strings.Repeat("\n", 100_000)+"!`a`"))
}

// FuzzFindShellBlocks: blocks are in order, look like blocks, and there are
// none once all of a body is code.
func FuzzFindShellBlocks(f *testing.F) {
	f.Add("- x\n  ```!\n  a\n  ```\n> !`b`\n")
	f.Add("`` !`a` ``\n\n    !`b`\n~~~\n!`c`\n~~~ \n!``d``")
	f.Fuzz(func(t *testing.T, body string) {
		end := 0
		for _, block := range findShellBlocks(body) {
			require.LessOrEqual(t, end, block.start)
			end = block.end
			text := body[block.start:block.end]
			if strings.HasPrefix(text, "```!") {
				require.Regexp(t, "(?s)^```![^`]*\n.*```[`\\s]*$", text)
				continue
			}
			require.Regexp(t, "(?s)^!`.+`$", text)
			if block.start > 0 {
				require.Regexp(t, `[\s\pZ\x85\v]$`, body[:block.start])
			}
		}
		fence := strings.Repeat("`", 3+strings.Count(body, "`"))
		require.Empty(t, shellCodes(fence+"\n"+body+"\n"+fence), "fenced")
		require.Empty(t, shellCodes("    "+strings.ReplaceAll(body, "\n", "\n    ")), "indented")
	})
}

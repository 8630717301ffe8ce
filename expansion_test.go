package skillbay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	testDir     = "/srv/skills/refund"
	testSession = "5f0c4a52-6f0e-4c53-9a51-7d1f7f7b6c11"
)

// expandArgs expands a body with arguments and without shell blocks.
func expandArgs(body string, declared []string, args string) string {
	return compileTemplate(body, declared).expand(
		values{dir: testDir, session: testSession, args: args, given: true})
}

// expandBare expands a body without any arguments.
func expandBare(body string, declared []string) string {
	return compileTemplate(body, declared).expand(values{dir: testDir, session: testSession})
}

// TestArgumentCases holds the reported faults about arguments.
func TestArgumentCases(t *testing.T) {
	t.Run("ar-01", func(t *testing.T) {
		assert.Equal(t, "Cost was $0.06 per user, cap FOO.",
			expandArgs("Cost was $0.06 per user, cap $0.", nil, "FOO"))
		assert.Equal(t, "Cost was $0, cap FOO.",
			expandArgs(`Cost was \$0, cap $0.`, nil, "FOO"))
	})
	t.Run("ar-03", func(t *testing.T) {
		const body = "=B5*(1+$B$6) and =$AA$2"
		const args = "zero one two three four five six"
		assert.Equal(t, body+"\n\nARGUMENTS: "+args, expandArgs(body, nil, args))
		assert.Equal(t, body+" zero two US$2", expandArgs(body+" $0 $2 US$2", []string{"a", "b", "c"}, args),
			"with declared names too")
	})
	t.Run("ar-06", func(t *testing.T) {
		const body = "awk '{print $1}' file"
		for _, args := range []string{"SOLO", "SOLO DUO"} {
			assert.Equal(t, body+"\n\nARGUMENTS: "+args, expandArgs(body, nil, args))
		}
	})
	t.Run("ar-08", func(t *testing.T) {
		const body = `\$0 \$1 \$ARGUMENTS cost \$5 home \$HOME`
		const want = `$0 $1 $ARGUMENTS cost $5 home \$HOME`
		assert.Equal(t, want+"\n\nARGUMENTS: X Y", expandArgs(body, nil, "X Y"))
		assert.Equal(t, want, expandBare(body, nil))
	})
	t.Run("ar-09", func(t *testing.T) {
		const args = `100$$ $& ${1} \1 $1`
		assert.Equal(t, "run "+args+" / 100$$ / 100$$",
			expandArgs("run $ARGUMENTS / $0 / $who", []string{"who"}, args))
		assert.Equal(t, "run "+args+" / $& / ${1}",
			expandArgs("run $ARGUMENTS / $amp / $2", []string{"a", "amp", "c"}, args))
	})
	t.Run("ar-13", func(t *testing.T) {
		assert.Equal(t, "two words|b|$10|l|",
			expandArgs("$0|$1|$10|$ARGUMENTS[11]|$ARGUMENTS[99]", nil, `"two words" b c d e f g h i j k l`))
	})
	t.Run("ar-15", func(t *testing.T) {
		assert.Equal(t, "subj=review rest=Dana's all=review Dana's draft, don't merge",
			expandArgs("subj=$0 rest=$1 all=$ARGUMENTS", nil, "review Dana's draft, don't merge"))
	})
	t.Run("ar-16", func(t *testing.T) {
		const body = `node "${SKILL_DIR}/scripts/a.mjs" vs "$SKILL_DIR/scripts/a.mjs" vs "${SKILL_DIRS}/x"`
		want := strings.Replace(body, "${SKILL_DIR}", testDir, 1)
		assert.Equal(t, want, expandBare(body, nil))
		assert.Equal(t, want, expandArgs(body, nil, ""))
	})
}

func TestExpandPlaceholders(t *testing.T) {
	order := []string{"order", "order-id", "reason"}
	tests := []struct {
		name     string // why the row exists
		body     string
		declared []string
		args     string
		want     string
	}{
		{"raw text keeps its quotes and blanks", "<$ARGUMENTS>", nil, ` "a  b"  c `, `< "a  b"  c >`},
		{"ARGUMENTS before an identifier character is text", "$ARGUMENTS $ARGUMENTSX $ARGUMENTS_1 $ARGUMENTSé", nil, "a", "a $ARGUMENTSX $ARGUMENTS_1 $ARGUMENTSé"},
		{"a script without case may touch a placeholder", "处理$ARGUMENTS的退款，订单$0号", nil, "A1", "处理A1的退款，订单A1号"},
		{"word by index, missing ones empty", "$ARGUMENTS[0]-$ARGUMENTS[1]-$ARGUMENTS[2]", nil, "a b", "a-b-"},
		{"brackets without a number are text", "$ARGUMENTS[x] $ARGUMENTS[] $ARGUMENTS[1", nil, "a", "a[x] a[] a[1"},
		{"an index beyond every integer is empty", "<$ARGUMENTS[99999999999999999999999]>", nil, "a", "<>"},

		{"declared names, missing ones empty", "$order/$reason.", order, "A1", "A1/."},
		{"the longest declared name is meant", "$order-id $order-ix", order, "A1 B2", "B2 A1-ix"},
		{"whole identifiers only", "$orders $order_1 $order2 ${order} $Order", order, "A1", "$orders $order_1 $order2 ${order} $Order\n\nARGUMENTS: A1"},
		{"a name before [ is text", "$order[0] $order", order, "A1", "$order[0] A1"},
		{"a repeated name means its first place", "$a", []string{"a", "a"}, "1 2", "1"},

		{"with declared names $N counts below their number", "$0 $2 $3", order, "a b c d", "a c $3"},
		{"with declared names no run is needed", "$1", order, "a b", "b"},
		{"without names the run starts at $0", "$1 $2", nil, "a b c", "$1 $2\n\nARGUMENTS: a b c"},
		{"the run ends at the first gap", "$0 $1 $3", nil, "a b c d", "a b $3"},
		{"the order in the body does not matter", "$1 $0", nil, "a b", "b a"},
		{"missing words are empty", "<$0|$1>", nil, "a", "<a|>"},
		{"an amount is no part of the run", "$0.50 and $1", nil, "a b", "$0.50 and $1\n\nARGUMENTS: a b"},
		{"an escaped one is no part of the run", `\$0 and $1`, nil, "a b", "$0 and $1\n\nARGUMENTS: a b"},
		{"a shell block counts for the run", "$1\n!`lookup $0`", nil, "a b", "b\n!`lookup a`"},
		{"a sentence may end after a placeholder", "$0. $1, done", nil, "a b", "a. b, done"},
		{"amounts with a comma or a currency", "$1,000 US$1 A1$0 é$0 $0", []string{"a", "b"}, "x y", "$1,000 US$1 A1$0 é$0 x"},
		{"a sign, a blank or an underscore in front is none", "€$0 _$0_ ($0)", nil, "x", "€x _x_ (x)"},
		{"placeholders may touch", "$0$1$ARGUMENTS$0", nil, "a b", "aba ba"},
		{"leading zeros are no index", "$0 $00 $01", []string{"a", "b"}, "x y", "x $00 $01"},
		{"letters may follow a number", "$0th", nil, "5", "5th"},
		{"two dollars", "$$0 $$ARGUMENTS $$", nil, "a", "$a $a $$"},

		{"escapes", `\$0 \$12 \$ARGUMENTS[0] \$order \$order[0]`, order, "a", "$0 $12 $ARGUMENTS[0] $order $order[0]\n\nARGUMENTS: a"},
		{"a backslash before anything else stays", `\$HOME \$ARGUMENTSX \$orders \\ \$`, order, "", `\$HOME \$ARGUMENTSX \$orders \\ \$`},
		{"an escaped dollar takes one backslash", `\\$0`, nil, "", `\$0`},
		{"the backslash of a declared name is no escape", `$a\$0`, []string{`a\`}, "x", "xx"},
		{"an escape is not a placeholder's neighbour", `\$5$0`, []string{"a"}, "x", "$5$0\n\nARGUMENTS: x"},

		{"braced", "${SKILL_DIR}|${CLAUDE_SKILL_DIR}|${SESSION_ID}|${CLAUDE_SESSION_ID}", nil, "", testDir + "|" + testDir + "|" + testSession + "|" + testSession},
		{"other braces are text", "${HOME} ${ARGUMENTS} ${0} ${SKILL_DIR", nil, "", "${HOME} ${ARGUMENTS} ${0} ${SKILL_DIR"},
		{"the directory takes no arguments", "${SKILL_DIR}", nil, "a", testDir + "\n\nARGUMENTS: a"},
		{"a template language is text", `${{ matrix.os }} {{.Values.image}} {{ env "HOME" }}`, nil, "", `${{ matrix.os }} {{.Values.image}} {{ env "HOME" }}`},
		{"empty arguments empty the placeholders", "<$ARGUMENTS|$0|$ARGUMENTS[0]>", nil, "", "<||>"},
		{"empty arguments are not appended", "body", nil, "", "body"},
		{"an empty body", "", nil, "a", "\n\nARGUMENTS: a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, expandArgs(tt.body, tt.declared, tt.args), "body %q, args %q", tt.body, tt.args)
		})
	}
}

// Without any arguments their placeholders stay as written; escapes, directory
// and session do not depend on arguments.
func TestExpandWithoutArguments(t *testing.T) {
	tests := []struct{ body, want string }{
		{"$ARGUMENTS $ARGUMENTS[1] $0 $name", "$ARGUMENTS $ARGUMENTS[1] $0 $name"},
		{`\$0 \$name`, "$0 $name"},
		{"$0 ${SKILL_DIR} ${SESSION_ID}", "$0 " + testDir + " " + testSession},
		{"", ""},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, expandBare(tt.body, []string{"name"}), "body %q", tt.body)
	}
}

func TestExpandAppendsInOtherWords(t *testing.T) {
	past := func(args string) string { return "\n\n(its arguments were: " + args + ")" }
	v := values{args: "$0", given: true, appended: past}
	assert.Equal(t, "body\n\n(its arguments were: $0)", compileTemplate("body", nil).expand(v))
	assert.Equal(t, "body $0", compileTemplate("body $0", nil).expand(v), "taken: not appended")
	v.args = ""
	assert.Equal(t, "body", compileTemplate("body", nil).expand(v), "nothing to append")
}

func TestBaseHeader(t *testing.T) {
	assert.Equal(t, "Base directory for this skill: /srv/$0\n\n", baseHeader("/srv/$0"))
	assert.Equal(t, "Base directory for this skill: skill://refund\n\n", baseHeader("skill://refund"))
}

func TestConstant(t *testing.T) {
	for _, body := range []string{"", "text", "costs $5, $1.50 and US$0; awk '{print $1}'", `\$HOME`, "`!`x`"} {
		assert.True(t, compileTemplate(body, nil).constant(), "body %q", body)
	}
	for _, body := range []string{"$0", "$ARGUMENTS", "${SKILL_DIR}", `\$5`, "!`date`"} {
		assert.False(t, compileTemplate(body, nil).constant(), "body %q", body)
	}
}

// Whether a `$N` is a placeholder depends on the body alone: not on the number
// of words, and not on whether shell blocks are run.
func TestRulePlaceholdersDependOnTheBodyAlone(t *testing.T) {
	const body = "a $0 b $1 c $2 d $4\n!`echo $3x $9`"
	tmpl := compileTemplate(body, nil)
	for n := range 12 {
		args := strings.Join(strings.Split("ABCDEFGHIJKL", "")[:n], " ")
		for _, shell := range [][]string{nil, {"out"}} {
			got := tmpl.expand(values{args: args, given: true, shell: shell})
			word := func(i int) string { return wordAt(splitWords(args), i) }
			want := fmt.Sprintf("a %s b %s c %s d %s\n", word(0), word(1), word(2), word(4))
			if shell == nil {
				want += "!`echo " + word(3) + "x $9`"
			} else {
				want += "out"
			}
			assert.Equal(t, want, got, "args %q, shell %v", args, shell)
		}
	}
}

// TestRuleInsertedValueNeverScannedAgain puts texts that mean something in a
// body into every value: they come out as they went in.
func TestRuleInsertedValueNeverScannedAgain(t *testing.T) {
	hostile := []string{
		"$ARGUMENTS", "$ARGUMENTS[1]", "$0", "$1", "$name", `\$0`, "$$", "$&", "${1}", `\1`,
		"${SKILL_DIR}", "${CLAUDE_SESSION_ID}", "!`id`", "```!\nid\n```", "$(id)", "`id`", "{args}", "{{.}}",
	}
	const body = "all=$ARGUMENTS first=$0 second=$1 name=$name dir=${SKILL_DIR} session=${SESSION_ID} out=\n!`true`\n"
	for _, declared := range [][]string{nil, {"name"}, {"name", "second"}} {
		tmpl := compileTemplate(body, declared)
		require.Equal(t, 1, tmpl.shellBlocks())
		for _, value := range hostile {
			second, name := "two", "$name"
			if len(declared) == 1 {
				second = "$1"
			}
			if len(declared) > 0 {
				name = value
			}
			args := `"` + value + `" two`
			got := tmpl.expand(values{dir: value, session: value, args: args, given: true, shell: []string{value}})
			assert.Equal(t, fmt.Sprintf("all=%s first=%s second=%s name=%s dir=%s session=%s out=\n%s\n",
				args, value, second, name, value, value, value), got, "declared %v", declared)
		}
	}
	for _, value := range hostile {
		assert.Equal(t, "body\n\nARGUMENTS: "+value, expandArgs("body", nil, value), "appended")
	}
}

// A launch pays for the text it makes, and for nothing where the body is the
// text.
func TestExpandAllocations(t *testing.T) {
	fixed := compileTemplate(strings.Repeat("no placeholder, $5 ", 500), nil)
	escaped := compileTemplate(strings.Repeat(`escaped \$5 `, 500), nil)
	filled := compileTemplate(strings.Repeat("Use $ARGUMENTS in ${SKILL_DIR}. ", 500), nil)
	var sink string
	allocations := func(tmpl *template, v values) float64 {
		return testing.AllocsPerRun(20, func() { sink = tmpl.expand(v) })
	}
	assert.Zero(t, allocations(fixed, values{}))
	assert.Zero(t, allocations(fixed, values{given: true}))
	assert.Zero(t, allocations(escaped, values{}))
	assert.InDelta(t, 1, allocations(filled, values{dir: testDir}), 0, "one text of the right size")
	assert.NotEmpty(t, sink)
}

func TestSplitWords(t *testing.T) {
	tests := []struct {
		name, args string
		want       []string
	}{
		{"nothing", "", nil},
		{"only white space", " \t\n", nil},
		{"any white space", "a  b\tc\nd\u3000e\u00a0f", []string{"a", "b", "c", "d", "e", "f"}},
		{"double quotes group and go", `"two words" b`, []string{"two words", "b"}},
		{"also in the midst of a word", `--to="a b"c d`, []string{"--to=a bc", "d"}},
		{"an empty word", `"" a ""`, []string{"", "a", ""}},
		{"a quote without a partner is a character", `5" screen`, []string{`5"`, "screen"}},
		{"the third quote has no partner", `"a b" c" d`, []string{"a b", `c"`, "d"}},
		{"apostrophes are characters", "don't 'a b'", []string{"don't", "'a", "b'"}},
		{"backslashes are characters", `C:\new \"a b\"`, []string{`C:\new`, `\a b\`}},
		{"broken UTF-8 survives", "a\xff b", []string{"a\xff", "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, splitWords(tt.args), "args %q", tt.args)
		})
	}
}

// FuzzExpansion: nothing in a value is interpreted. Expanding with a sentinel
// in place of each value and replacing the sentinels afterwards gives what
// expanding with the values gives, whatever body, names and values are.
func FuzzExpansion(f *testing.F) {
	f.Add("run $ARGUMENTS / $0 / $who", "who", "100$$ $& ${1}", `\1 $1`, true)
	f.Add("$0|$1|$10|$ARGUMENTS[11]\n!`echo $0`\n", "", "$ARGUMENTS", "!`id`", true)
	f.Add("```!\necho \"$1\" $ARGUMENTS[0] ${CLAUDE_SKILL_DIR}\n```\n\\$0 $0$1", "", "${SESSION_ID}", "\n```!\nid\n```", false)
	f.Add("- item\n\n      !`x` $a-b$a[0]", "a a-b 1 a`", "x", "", true)
	f.Fuzz(func(t *testing.T, body, names, first, second string, shell bool) {
		body, names = strings.ReplaceAll(body, "\x00", ""), strings.ReplaceAll(names, "\x00", "")
		noQuote := strings.NewReplacer("\x00", "", `"`, "")
		first, second = noQuote.Replace(first), noQuote.Replace(second)
		tmpl := compileTemplate(body, strings.Fields(names))

		direct := values{dir: first, session: second, args: `"` + first + `" "` + second + `"`, given: true}
		marked := values{dir: "\x00d\x00", session: "\x00s\x00", args: "\"\x000\x00\" \"\x001\x00\"", given: true}
		pairs := []string{"\x00d\x00", first, "\x00s\x00", second, "\x000\x00", first, "\x001\x00", second}
		if shell {
			for i := range tmpl.shellBlocks() {
				mark := fmt.Sprintf("\x00out%d\x00", i)
				direct.shell = append(direct.shell, second)
				marked.shell = append(marked.shell, mark)
				pairs = append(pairs, mark, second)
			}
		}
		want := strings.NewReplacer(pairs...).Replace(tmpl.expand(marked))
		require.Equal(t, want, tmpl.expand(direct))

		if tmpl.constant() {
			require.Equal(t, body, tmpl.expand(values{}))
			require.Equal(t, body+"\n\nARGUMENTS: x", tmpl.expand(values{args: "x", given: true}))
		}
	})
}

// FuzzArguments: words lose nothing but white space outside quotes and the
// quotes themselves, and grouping them again gives the same words.
func FuzzArguments(f *testing.F) {
	for _, seed := range []string{`"two words" b`, "Dana's draft, don't", `5" and 6" pipes"`, `"" a""b`, "a\xff\u3000b", `"a`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, args string) {
		_ = splitWords(args) // broken UTF-8 does no harm; cut anywhere, it may make other characters
		args = strings.ToValidUTF8(args, "")
		words := splitWords(args)
		bare := func(s string) string {
			return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '"' || unicode.IsSpace(r) }), "")
		}
		require.Equal(t, bare(args), bare(strings.Join(words, "")), "nothing else is lost or moved")
		require.Equal(t, strings.Count(args, `"`)%2, strings.Count(strings.Join(words, ""), `"`),
			"quotes go in pairs")
		if !strings.Contains(args, `"`) {
			require.True(t, slices.Equal(strings.Fields(args), words))
			return
		}
		if strings.Contains(strings.Join(words, ""), `"`) {
			return
		}
		grouped := `"` + strings.Join(words, `" "`) + `"`
		if len(words) > 0 {
			require.Equal(t, words, splitWords(grouped))
		}
	})
}

package skillbay

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSplitTools(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"ap-02", "Read,Grep , Bash,,  Glob, ", []string{"Read", "Grep", "Bash", "Glob"}},
		{"ap-04 names", "Read Write Glob", []string{"Read", "Write", "Glob"}},
		{"ap-04 patterns", "Bash(npm test:*) Bash(git add *)", []string{"Bash(npm test:*)", "Bash(git add *)"}},
		{"ap-08", "Bash(git:*) Bash(jq:*) Read", []string{"Bash(git:*)", "Bash(jq:*)", "Read"}},
		{"nothing", " ,\n", nil},
		{"blanks before a parenthesis", "Skill \n (mem, hist), Read", []string{"Skill \n (mem, hist)", "Read"}},
		{"a comma before a parenthesis", "Read, (x)", []string{"Read", "(x)"}},
		{"nested", "Bash(echo (a, b) c) Read", []string{"Bash(echo (a, b) c)", "Read"}},
		{"never closed", "Read Bash(git, Grep", []string{"Read", "Bash(git, Grep"}},
		{"never closed, blanks at the end", "Skill (mem, ", []string{"Skill (mem,"}},
		{"closed twice", "Bash(git)) Read", []string{"Bash(git))", "Read"}},
		{"trailing blanks", "Read  ", []string{"Read"}},
		{"other white space", "Read\u3000Grep\tGlob", []string{"Read", "Grep", "Glob"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.want, splitTools(tt.in))
		})
	}
}

func TestParseAllow(t *testing.T) {
	for _, tt := range []struct {
		text    string
		known   bool
		kind    entryKind
		tool    string
		because string
	}{
		{"Read", true, exactEntry, "Read", "a name"},
		{" 退款_submit ", true, exactEntry, "退款_submit", "a ReAct tool may have any name"},
		{"mcp__crm.v2/get-user:x@1", true, exactEntry, "mcp__crm.v2/get-user:x@1", "all that a name may hold"},
		{"mcp__crm__*", true, prefixEntry, "mcp__crm__*", "a prefix"},
		{"Bash(git:*)", true, inputEntry, "Bash", "a pattern"},
		{"Skill (mem, hist)", true, inputEntry, "Skill", "blanks before the parenthesis"},
		{"Bash(echo (a) b)", true, inputEntry, "Bash", "balanced parentheses inside"},
		{"", false, unknownEntry, "", "no name"},
		{"*", false, unknownEntry, "", "`*` alone would be no limit"},
		{"mcp__*__get", false, unknownEntry, "", "`*` elsewhere than at the end"},
		{"Ba*(ls)", false, unknownEntry, "", "a prefix with a pattern"},
		{"*(ls)", false, unknownEntry, "", "a pattern without a name"},
		{"(ls)", false, unknownEntry, "", "a pattern without a name"},
		{"Bash(git", false, unknownEntry, "", "never closed"},
		{"Bash(git)x", false, unknownEntry, "", "text after the pattern"},
		{"Bash(a)(b)", false, unknownEntry, "", "two patterns"},
		{"-x", false, unknownEntry, "", "a name begins with a letter, a digit or _"},
		{"--stat)", false, unknownEntry, "", "the end of a pattern"},
		{`"Read"`, false, unknownEntry, "", "a quote is no part of a name"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			e, known := parseAllow(tt.text)
			assert.Equal(t, tt.known, known, tt.because)
			assert.Equal(t, tt.kind, e.kind, tt.because)
			assert.Equal(t, tt.tool, e.name(), tt.because)
			assert.Equal(t, strings.TrimSpace(tt.text), e.String(), "the source text is kept")
			assert.Equal(t, tt.kind == exactEntry, e.exact())
			assert.Equal(t, tt.kind == prefixEntry, e.isPattern())
		})
	}
}

func TestParseBan(t *testing.T) {
	for _, tt := range []struct {
		text, tool string
		bare       bool
	}{
		{"Bash", "Bash", false},
		{"mcp__crm__*", "mcp__crm__*", false},
		{"Bash (rm:*)", "Bash", true},
		{"Ba*(rm)", "Ba*", true},
	} {
		e, bare, err := parseBan(tt.text)
		require.NoError(t, err, tt.text)
		assert.Equal(t, tt.tool, e.name(), tt.text)
		assert.Equal(t, tt.bare, bare, tt.text)
	}
	for _, text := range []string{"", "*", "*(x)", "a*b", "Bash(rm", "Bash(a)b", `"Bash"`} {
		_, _, err := parseBan(text)
		assert.Error(t, err, "%q cannot be honoured as a ban", text)
	}
}

func TestEntryAllows(t *testing.T) {
	const longS = "\u017f" // upper case: S
	for _, tt := range []struct {
		name, entry, tool, input string
		want                     bool
	}{
		{"ap-10: case", "read", "Read", "", true},
		{"blanks around the call's name", "Read", " READ\n", "x", true},
		{"another name", "Read", "ReadFile", "", false},
		{"upper case as the executor", "skill", longS + "kill", "", true},
		{"prefix", "mcp__crm__*", "MCP__CRM__get", "", true},
		{"the prefix itself", "mcp__crm__*", "mcp__crm__", "", true},
		{"another prefix", "mcp__crm__*", "mcp__erp__get", "", false},
		{"prefix beyond ASCII", "退款*", "退款_submit", "", true},
		{"a prefix never allows skill", "sk*", "Skill", "", false},
		{"a pattern never allows skill", "skill(refund)", "skill", "refund", false},
		{"the exact name allows skill", "Skill", "skill", "refund", true},
		{"`*` alone", "*", "Read", "", false},
		{"an unknown entry is no name", "Bash(git", "Bash(git", "", false},

		{"ap-08", "Bash(git:*)", "bash", "git log", true},
		{"pattern, another tool", "Bash(git:*)", "Shell", "git log", false},
		{"x:* is x", "Bash(git:*)", "Bash", "git", true},
		{"x:* is not x and more", "Bash(git:*)", "Bash", "gitk", false},
		{"x:* wants a blank", "Bash(git:*)", "Bash", "git\tlog", false},
		{"a `*` before :*", "Bash(git * --:*)", "Bash", "git log -- a b", true},
		{"patterns keep case", "Bash(git:*)", "Bash", "GIT log", false},
		{"literal", "WebFetch(domain: x.org)", "WebFetch", "domain: x.org", true},
		{"nothing around a literal", "Bash(ls)", "Bash", "ls ", false},
		{"empty pattern", "Now()", "Now", "", true},
		{"empty pattern, some input", "Now()", "Now", "x", false},
		{"`*` for nothing", "Bash(npm run *)", "Bash", "npm run ", true},
		{"`*` in the middle", "Bash(git * main)", "Bash", "git push origin main", true},
		{"parts do not overlap", "Bash(aba*aba)", "Bash", "ababa", false},
		{"a control character of the author's", "Bash(make a && make *)", "Bash", "make a && make b", true},
		{"a control character for `*`", "Bash(make a && make *)", "Bash", "make a && make b && id", false},
		{"a control character before a middle part", "Bash(a*b*c)", "Bash", "a;bxc", false},
		{"a control character after a middle part", "Bash(a*b*c)", "Bash", "axb;c", false},
		{"the leftmost place is enough", "Bash(*;*;;*)", "Bash", ";;;", true},

		{"ae-04 $()", "Bash(git:*)", "Bash", "git log $(id)", false},
		{"ae-04 backtick", "Bash(git:*)", "Bash", "git log `id`", false},
		{"ae-04 line feed", "Bash(git:*)", "Bash", "git log\nid", false},
		{"ae-04 subshell", "Bash(git:*)", "Bash", "(id)", false},
		{"ae-04 redirection", "Bash(git:*)", "Bash", "git log > /etc/x", false},
		{"ae-04 no sandbox", "Bash(git:*)", "Bash", "git -c core.pager='!id' log", true},
		{"ae-06 quoted", "Bash(git commit:*)", "Bash", `git commit -m "a && b; c"`, false},
		{"ae-06 descriptor", "Bash(git commit:*)", "Bash", "git commit -m x 2>&1", false},
		{"ae-06 unclosed", "Bash(git commit:*)", "Bash", `git commit -m "unclosed && id`, false},

		{"JSON object", "Bash(git:*)", "Bash", ` {"command": "git log"} `, true},
		{"JSON escape", "Bash(git:*)", "Bash", `{"command": "git log\u000aid"}`, false},
		{"JSON repeated key", "Bash(git:*)", "Bash", `{"command": "git log", "command": "id"}`, false},
		{"JSON second string", "Bash(git:*)", "Bash", `{"command": "git log", "then": "id"}`, false},
		{"JSON second member", "Bash(git:*)", "Bash", `{"command": "git log", "n": 1}`, false},
		{"JSON other type", "Bash(*)", "Bash", `{"command": ["git"]}`, false},
		{"JSON nested", "Bash(*)", "Bash", `{"command": {"c": "git"}}`, false},
		{"JSON null", "Bash(*)", "Bash", `{"command": null}`, false},
		{"JSON empty object", "Bash(*)", "Bash", `{}`, false},
		{"JSON array", "Bash(*)", "Bash", `["git log"]`, false},
		{"JSON and more", "Bash(*)", "Bash", `{"command": "git"} {"command": "id"}`, false},
		{"JSON broken", "Bash(*)", "Bash", `{"command": "id", "command": "git`, false},
		{"JSON string is raw text", `Echo("*")`, "Echo", `"hi"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := parseAllow(tt.entry)
			assert.Equal(t, tt.want, e.allows(tt.tool, tt.input), "%s, call %s %q", tt.entry, tt.tool, tt.input)
		})
	}
}

// Every control character is refused for a `*`, wherever it stands.
func TestPatternNeverMatchesShellControl(t *testing.T) {
	e, known := parseAllow("Bash(git*)")
	require.True(t, known)
	require.True(t, e.allows("Bash", "git log x"))
	for _, control := range []string{";", "&", "|", "<", ">", "$", "(", ")", "`", "\n", "\r"} {
		for _, input := range []string{"git" + control, "git " + control + "id", "git log " + control + " id"} {
			assert.False(t, e.allows("Bash", input), "%q", input)
		}
	}
}

func TestEntryBans(t *testing.T) {
	for _, tt := range []struct {
		entry, tool string
		want        bool
	}{
		{"Bash", " bash", true},
		{"Bash", "BashX", false},
		{"mcp__*", "MCP__crm", true},
		{"sk*", "skill", true},
		{"Bash(rm:*)", "Bash", true},
	} {
		e, _, err := parseBan(tt.entry)
		require.NoError(t, err)
		assert.Equal(t, tt.want, e.bans(tt.tool), "%s, %s", tt.entry, tt.tool)
	}
	assert.False(t, new(entry).bans(""), "the zero entry bans nothing")
	assert.False(t, new(entry).allows("", ""), "the zero entry allows nothing")
}

func TestNewPolicy(t *testing.T) {
	p := newPolicy([]string{"Read", "*"}, []string{"Bash(rm)", "mcp__*"}, true)
	require.Len(t, p.allow, 2)
	assert.True(t, p.limits)
	assert.True(t, p.allow[0].allows("read", ""))
	assert.False(t, p.allow[1].allows("read", ""), "an unknown entry is kept and allows nothing")
	assert.Equal(t, "*", p.allow[1].String())
	require.Len(t, p.ban, 2)
	assert.True(t, p.ban[0].bans("Bash"))

	damaged := newPolicy(nil, []string{"Bash(rm"}, false)
	require.Len(t, damaged.ban, 1)
	assert.True(t, damaged.ban[0].bans("anything"), "a ban that cannot be read bans every tool")
}

func TestPlainNamesDoNotAllocate(t *testing.T) {
	exact, _ := parseAllow("mcp__crm__get")
	prefix, _ := parseAllow("mcp__crm__*")
	n := testing.AllocsPerRun(100, func() {
		exact.allows("MCP__CRM__get", `{"id": 1}`)
		prefix.allows("MCP__CRM__get", `{"id": 1}`)
		exact.bans("MCP__CRM__get")
	})
	assert.Zero(t, n)
}

// FuzzPattern states what entries promise for any text, tool and input: the
// pieces of splitTools are whole, a pattern is what its regular expression says,
// what is unknown allows nothing, and a ban covers all that a limit of the
// same text would allow.
func FuzzPattern(f *testing.F) {
	for _, seed := range [][3]string{
		{"Read, Bash(git:*) mcp__*", "Bash", "git log"},
		{"Bash(a*b;*c)", "bash", "axb;yc"},
		{"Skill (mem, hist), *", "skill", `{"a": "b"}`},
		{"退款* Ba(*;*;;*", "退款_x", ";;;"},
		{"Bash(:*)", "Bash", " x"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, list, tool, input string) {
		if !utf8.ValidString(list) {
			t.Skip("headers are UTF-8 when they are read")
		}
		pieces := splitTools(list)
		for _, text := range pieces {
			assert.Equal(t, strings.TrimSpace(text), text)
			assert.NotEmpty(t, text)
			checkEntry(t, text, tool, input)
		}
		solid := func(s string) string { return strings.Join(strings.FieldsFunc(s, isToolSeparator), "") }
		assert.Equal(t, solid(list), solid(strings.Join(pieces, "")), "nothing is lost or invented")
	})
}

func checkEntry(t *testing.T, text, tool, input string) {
	e, known := parseAllow(text)
	allowed := e.allows(tool, input)
	if !known {
		assert.False(t, allowed, "an unknown entry allows nothing")
		assert.Empty(t, e.name())
		return
	}
	ban, _, err := parseBan(text)
	require.NoError(t, err, "what a limit knows a ban knows")
	if allowed {
		assert.True(t, ban.bans(tool), "a ban covers what a limit would allow")
		assert.True(t, e.exact() || !sameTool(tool, toolSkill), "only the exact name allows skill")
	}
	if raw := strings.TrimSpace(input); e.kind == inputEntry && sameTool(e.tool, tool) && !sameTool(tool, toolSkill) &&
		!strings.HasPrefix(raw, "{") && !strings.HasPrefix(raw, "[") {
		pattern := text[strings.Index(text, "(")+1 : len(text)-1]
		assert.Equal(t, referenceMatch(pattern, input), allowed, "%s against %q", text, input)
	}
}

// referenceMatch reads a pattern as section 8.7 words it.
func referenceMatch(pattern, input string) bool {
	glob := func(s string) string {
		return strings.ReplaceAll(regexp.QuoteMeta(s), `\*`, "[^"+regexp.QuoteMeta(shellControl)+"]*")
	}
	expression := glob(pattern)
	if command, ok := strings.CutSuffix(pattern, ":*"); ok {
		expression = glob(command) + "(?: " + glob("*") + ")?"
	}
	return regexp.MustCompile(`\A(?s:` + expression + `)\z`).MatchString(input)
}

// Names compare as strings.ToUpper says, whatever path the comparison takes.
func TestSameTool(t *testing.T) {
	names := []string{"", "skill", "Skill", "\u017fkill", "s\u212aill", "sKill ", "退款", "Straße", "STRASSE"}
	for _, a := range names {
		for _, b := range names {
			upperA, upperB := strings.ToUpper(strings.TrimSpace(a)), strings.ToUpper(strings.TrimSpace(b))
			assert.Equal(t, upperA == upperB, sameTool(a, b), "%q %q", a, b)
		}
	}
}

package skillbay

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fenced is a SKILL.md with this header.
func fenced(header string) string { return "---\n" + header + "---\nBody\n" }

// readHeader parses a header that must not be refused.
func readHeader(t *testing.T, header string) (Skill, []note) {
	t.Helper()
	s, notes := parseSkill(fenced(header))
	require.Empty(t, refusal(notes), "%s", header)
	return s, notes
}

// refusal joins the messages of the notes that refuse.
func refusal(notes []note) string { return noteLines(notes, Refused) }

func noteLines(notes []note, severity Severity) string {
	var lines []string
	for _, n := range notes {
		if n.severity == severity {
			lines = append(lines, fmt.Sprintf("%d: %s", n.line, n.message))
		}
	}
	return strings.Join(lines, "\n")
}

// The reported faults of the categories frontmatter-delimiter, -yaml, -types
// and allowed-tools-parse, each under its id.
func TestHeaderCases(t *testing.T) {
	t.Run("fd-02", func(t *testing.T) {
		const text = "\ufeff---\nname: peek\ndescription: Read-only look\nallowed-tools: Read\n---\nLook only.\n"
		normal, notes := normalise([]byte(text))
		require.Empty(t, notes)
		s, notes := parseSkill(normal)
		require.Empty(t, notes)
		assert.Equal(t, []string{"Read"}, s.AllowedTools)
		p := newPolicy(s.AllowedTools, s.DisallowedTools, s.Restricted)
		assert.True(t, p.limits)
		assert.False(t, p.allow[0].allows("Write", ""))
		_, notes = parseSkill(text)
		assert.NotEmpty(t, refusal(notes), "a BOM that was kept makes the skill unavailable, not unrestricted")
	})
	t.Run("fd-05", func(t *testing.T) {
		s, notes := parseSkill("---\nname: eof-case\ndescription: No final newline\n---")
		require.Empty(t, notes)
		assert.Equal(t, "No final newline", s.Description)
		assert.Empty(t, s.Body)
	})
	t.Run("fd-07", func(t *testing.T) {
		s, notes := parseSkill("---\ndescription: |\n  before\n  ---\n  after\nname: triage-mail\nallowed-tools: Read\n---\nBody here\n")
		require.Empty(t, notes)
		assert.Equal(t, "before\n---\nafter\n", s.Description)
		assert.Equal(t, "triage-mail", s.DisplayName)
		assert.Equal(t, []string{"Read"}, s.AllowedTools)
		assert.Equal(t, "Body here\n", s.Body)
	})
	t.Run("fd-08", func(t *testing.T) {
		_, notes := parseSkill("---\nname: timeline\ndescription: \"Draw a timeline\n---\nor decline.\"\n---\nBody\n")
		assert.Equal(t, "3: the description is lost", refusal(notes))
		assert.Contains(t, noteLines(notes, Warning), `3: the value of "description" opens a quote and never closes it`)
	})
	t.Run("fd-10", func(t *testing.T) {
		s, notes := readHeader(t, "name: sep\nnotes: |\n  x\n---draft---\ndescription: Real text\n")
		assert.Equal(t, "sep", s.DisplayName)
		assert.Equal(t, "Real text", s.Description)
		assert.Contains(t, noteLines(notes, Warning), `3: the value of "notes" is not valid YAML`)
		assert.Contains(t, s.Metadata["notes"], "---draft---")
	})
	t.Run("fd-12", func(t *testing.T) {
		s, notes := parseSkill("\n\n---\nname: late\ndescription: Starts late\n---\nBody\n")
		require.Empty(t, notes)
		assert.Equal(t, "Starts late", s.Description)
		_, notes = parseSkill("<!-- note -->\n---\nname: late2\ndescription: d\n---\nBody\n")
		assert.Equal(t, "1: the file does not begin with a line of `---`, so there is no header and no description", refusal(notes))
	})
	t.Run("fd-13", func(t *testing.T) {
		s, notes := parseSkill("---  \nname: spacey\ndescription: d\n--- \t\nBody\n")
		require.Empty(t, notes)
		assert.Equal(t, "Body\n", s.Body)
	})

	t.Run("fy-02", func(t *testing.T) {
		s, _ := readHeader(t, "name: promo\ndescription: Marketing work: drafts and edits\nallowed-tools: Read\n")
		assert.Equal(t, "Marketing work: drafts and edits", s.Description)
		assert.Equal(t, []string{"Read"}, s.AllowedTools)
		_, notes := parseSkill(fenced("description: d\nallowed-tools: \"Read\n"))
		assert.Equal(t, "3: the value of `allowed-tools` is lost", refusal(notes))
	})
	t.Run("fy-04", func(t *testing.T) {
		s, _ := readHeader(t, "name: builder\ndescription: \"Plan then Make\" - guides you through both\n")
		assert.Equal(t, `"Plan then Make" - guides you through both`, s.Description)
	})
	t.Run("fy-06", func(t *testing.T) {
		s, _ := readHeader(t, "name: lint-run\ndescription: `golint` wrapper for reviews\n")
		assert.Equal(t, "`golint` wrapper for reviews", s.Description)
	})
	t.Run("fy-09", func(t *testing.T) {
		for _, hint := range []string{"[path]", "[path] [--dry-run]", "[--status | --close]"} {
			s, _ := readHeader(t, "description: d\nargument-hint: "+hint+"\n")
			assert.Equal(t, hint, s.ArgumentHint)
			assert.Equal(t, "d", s.Description)
		}
	})
	t.Run("fy-11", func(t *testing.T) {
		for mark, want := range map[string]string{
			">-": "Explicit loop only, never automatic.", ">+": "Explicit loop only, never automatic.\n",
			"|": "Explicit loop only,\nnever automatic.\n", "|-": "Explicit loop only,\nnever automatic.", "|2-": "Explicit loop only,\nnever automatic.",
		} {
			for _, broken := range []string{"", "other: a: b\n"} {
				s, _ := readHeader(t, "name: loop\ndescription: "+mark+"\n  Explicit loop only,\n  never automatic.\nargument-hint: \"[goal]\"\n"+broken)
				assert.Equal(t, want, s.Description, "%s, broken elsewhere: %q", mark, broken)
				assert.Equal(t, "[goal]", s.ArgumentHint)
			}
		}
	})
	t.Run("fy-14", func(t *testing.T) {
		for _, broken := range []string{"", "other: a: b\n"} {
			_, notes := parseSkill(fenced("name: first\ndescription: d\nallowed-tools: Read\nallowed-tools: Read, Write, Bash\n" + broken))
			assert.Equal(t, "5: the key `allowed-tools` is given more than once", refusal(notes))
			s, notes := readHeader(t, "name: first\ndescription: d\nname: last\n"+broken)
			assert.Equal(t, "last", s.DisplayName)
			assert.Contains(t, noteLines(notes, Warning), "4: the key `name` is given more than once")
		}
	})
	t.Run("fy-15", func(t *testing.T) {
		for _, broken := range []string{"", "other: a: b\n"} {
			s, _ := readHeader(t, "\"name\": upstream\n'description': Quoted keys\nmetadata:\n  name: other\n"+broken)
			assert.Equal(t, "upstream", s.DisplayName)
			assert.Equal(t, "Quoted keys", s.Description)
			assert.Equal(t, "other", s.Metadata["name"])
		}
	})
	t.Run("fy-17", func(t *testing.T) {
		for _, header := range []string{"name: a\n? - x\n: y\n<<:\n- - q\n", "name: z\nmetadata: {{}, <<}\n"} {
			_, notes := parseSkill(fenced(header))
			assert.NotEmpty(t, refusal(notes))
		}
	})
	t.Run("fy-19", func(t *testing.T) {
		s, notes := readHeader(t, "name: rnd\ndescription: R&D notes, matches *.md files, 5 * 3 maths\n")
		assert.Equal(t, "R&D notes, matches *.md files, 5 * 3 maths", s.Description)
		assert.Empty(t, notes)
	})
	t.Run("fy-21", func(t *testing.T) {
		for _, header := range []string{"Name: wrong-case\nname: right-case\n", "name: right-case\nName: wrong-case\n"} {
			s, notes := readHeader(t, header+"description: Fixes bug #12 in C# code\n")
			assert.Equal(t, "right-case", s.DisplayName)
			assert.Equal(t, "Fixes bug", s.Description)
			assert.Contains(t, noteLines(notes, Warning), "4: YAML takes what follows ` #` in the value of \"description\" for a comment")
		}
	})

	t.Run("ft-01", func(t *testing.T) {
		s, _ := readHeader(t, "name: 007\ndescription: 2026-03-04\nversion: 1.10\nmetadata:\n  enabled: yes\n")
		assert.Equal(t, "007", s.DisplayName)
		assert.Equal(t, "2026-03-04", s.Description)
		assert.Equal(t, "1.10", s.Version)
		assert.Equal(t, "yes", s.Metadata["enabled"])
	})
	t.Run("ft-03", func(t *testing.T) {
		_, notes := parseSkill("---\nname: gone\ndescription: \"   \"\n---\nUse me.\n")
		assert.Equal(t, []note{{3, Refused, "the description is blank"}}, notes)
	})
	t.Run("ft-04", func(t *testing.T) {
		_, notes := parseSkill("---\nname: manual\n---\nDo it by hand.\n")
		assert.Equal(t, []note{{1, Refused, "the header has no description"}}, notes)
	})
	t.Run("ft-06", func(t *testing.T) {
		s, _ := readHeader(t, "name: rt\ndescription: d\nmetadata:\n  created: 2024-01-01\n  enabled: true\n  ratio: 1e3\n")
		assert.Equal(t, map[string]string{"created": "2024-01-01", "enabled": "true", "ratio": "1e3"}, s.Metadata)
	})
	t.Run("ft-08", func(t *testing.T) {
		_, notes := readHeader(t, "description: "+strings.Repeat("文", 342)+"\n")
		assert.Empty(t, notes)
		_, notes = readHeader(t, "description: "+strings.Repeat("文", 1024)+"\n")
		assert.Empty(t, notes)
		_, notes = readHeader(t, "description: "+strings.Repeat("文", 1025)+"\n")
		assert.Equal(t, "2: the description has 1025 characters; the specification allows 1024", noteLines(notes, Warning))
	})

	for _, tt := range []struct {
		id, value string
		want      []string
	}{
		{"ap-02", `"Read,Grep , Bash,,  Glob, "`, []string{"Read", "Grep", "Bash", "Glob"}},
		{"ap-04 quoted", `"Read Write Glob"`, []string{"Read", "Write", "Glob"}},
		{"ap-04 plain", `Bash(npm test:*) Bash(git add *)`, []string{"Bash(npm test:*)", "Bash(git add *)"}},
		{"ap-08", `Bash(git:*) Bash(jq:*) Read`, []string{"Bash(git:*)", "Bash(jq:*)", "Read"}},
		{"ap-10", `read, Grpe`, []string{"read", "Grpe"}},
	} {
		t.Run(tt.id, func(t *testing.T) {
			s, notes := readHeader(t, "description: d\nallowed-tools: "+tt.value+"\n")
			assert.Equal(t, tt.want, s.AllowedTools)
			assert.True(t, s.Restricted)
			assert.Empty(t, notes)
		})
	}
	t.Run("ap-07", func(t *testing.T) {
		s, notes := readHeader(t, "description: d\n")
		assert.Nil(t, s.AllowedTools)
		assert.False(t, s.Restricted)
		assert.Empty(t, notes)
		for _, value := range []string{" []", "", ` ""`, " ~", " ' , '"} {
			s, notes := readHeader(t, "description: d\nallowed-tools:"+value+"\n")
			assert.Equal(t, []string{}, s.AllowedTools, "%q: present and empty", value)
			assert.True(t, s.Restricted, "%q", value)
			assert.Equal(t, "3: `allowed-tools` is empty: the skill allows no tool at all", noteLines(notes, Warning), "%q", value)
		}
	})
}

func TestHeaderFences(t *testing.T) {
	for _, tt := range []struct{ name, text, description, body, refused string }{
		{"closing fence ends the file", "---\ndescription: d\n---", "d", "", ""},
		{"a second pair of fences is body", "---\ndescription: d\n---\na\n---\nb\n", "d", "a\n---\nb\n", ""},
		{"blank lines first", " \n\t\n---\ndescription: d\n---\n", "d", "", ""},
		{"text first", "x\n---\ndescription: d\n---\n", "", "", "1: the file does not begin"},
		{"indented fence", " ---\ndescription: d\n---\n", "", "", "1: the file does not begin"},
		{"four hyphens", "----\ndescription: d\n---\n", "", "", "1: the file does not begin"},
		{"no closing fence", "\n---\ndescription: d\n ---\n---x\n----\n", "", "", "2: no line of `---` closes"},
		{"three dots do not close", "---\ndescription: d\n...\nBody\n", "", "", "1: no line of `---` closes"},
		{"empty", "", "", "", "1: the file does not begin"},
		{"blank", "\n\n", "", "", "the file does not begin"},
		{"nothing between", "---\n---\nBody\n", "", "Body\n", "1: the header has no description"},
		{"comments between", "---\n# x\n---\n", "", "", "1: the header has no description"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, notes := parseSkill(tt.text)
			if tt.refused != "" {
				assert.Contains(t, refusal(notes), tt.refused)
				return
			}
			require.Empty(t, refusal(notes))
			assert.Equal(t, tt.description, s.Description)
			assert.Equal(t, tt.body, s.Body)
		})
	}
}

func TestHeaderSize(t *testing.T) {
	header := "description: d\nx: "
	fill := strings.Repeat("x", maxHeaderBytes-len(header)-1) + "\n"
	readHeader(t, header+fill)
	_, notes := parseSkill(fenced(header + "x" + fill))
	assert.Equal(t, "1: the header has 65537 bytes; at most 65536 are read", refusal(notes))
}

func TestHeaderSteps(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		step         parseStep
		description  string // "": refused
		note         string
	}{
		{"strict", "description: d\n", stepStrict, "d", ""},
		{"flow", "{\"description\": \"d\",\nname: x}\n", stepStrict, "d", ""},
		{"indented", "  description: d\n  name: x\n", stepStrict, "d", ""},
		{"a colon", "description: Refunds: how to\n", stepEntries, "Refunds: how to", `2: the value of "description" is not valid YAML (mapping values`},
		{"continuation", "description: Refunds: how\n  to\n\nask\nname: x\n", stepEntries, "Refunds: how to ask", "2: the value"},
		{"comment lines are none of it", "description: Refunds: how\n# x\n  # y\n  to\n", stepEntries, "Refunds: how to", "2: the value"},
		{"`#` on the line is", "description: Refunds: see #help\n", stepEntries, "Refunds: see #help", "2: the value"},
		{"an undefined alias is text", "description: *foo\n", stepEntries, "*foo", "2: the value"},
		{"flow and more", "description: {name}: x\n", stepEntries, "{name}: x", "2: the value"},
		{"literal block", "description: |2-\n  a\n   b\n\n  # c\n# d\n e\n", stepEntries, "a\n b\n\n# c\ne", "2: the value"},
		{"a quote in a block is text", "description: |\n  \"a\n b\n", stepEntries, "\"a\nb", "2: the value"},
		{"folded block", "description: > # x\n  a\n  b\n c\n", stepEntries, "a b c", "2: the value"},
		{"text beside a block's mark", "description: > a\n  b\n", stepEntries, "> a b", "2: the value"},
		{"JSON string", `description: "\ud83e\udde0 \/ brain"` + "\n", stepEntries, "\U0001f9e0 / brain", "2: the value"},
		{"JSON string in lines", "description: \"\\ud83e\\udde0\n  brain\"\n", stepEntries, "\U0001f9e0 brain", "2: the value"},
		{"quotes inside quotes", `description: "Say "hi" to all"` + "\n", stepEntries, `Say "hi" to all`, "2: the value"},
		{"apostrophe inside quotes", `description: 'It's on: go'` + "\n", stepEntries, `It's on: go`, "2: the value"},
		{"two quoted words", `description: "a" and "b"` + "\n", stepEntries, `"a" and "b"`, "2: the value"},
		{"unclosed", "description: \"a\nname: x\n", stepEntries, "", "2: the value of \"description\" opens a quote and never closes it; the entry is lost"},
		{"unclosed, an escaped quote inside", "description: \"a \\\"b\nname: x\n", stepEntries, "", "opens a quote"},
		{"unclosed apostrophe", "description: 'tis: so\n", stepEntries, "", "opens a quote"},
		{"the last but a lost one", "description: d\ndescription: \"e\n", stepEntries, "d", "3: the value of \"description\" opens a quote"},
		{"two documents", "description: d\n...\nname: x\n", stepEntries, "d", "1: the header is not valid YAML (there is more than one document)"},
		{"no mapping inside", "- a\ndescription: d\n", stepEntries, "d", "2: the lines before the first key"},
		{"only a list", "- a\n- b\n", stepEmpty, "", "2: the lines before the first key"},
		{"only text", "a\n", stepEmpty, "", "2: the lines before the first key"},
		{"a key of white space", "description: d\n\f: \"c\n", stepEntries, "d", "3: the value of \"\" opens a quote"},
		{"a key from a separator", "description: d\n\"x: y\n", stepEntries, "d \"x: y", "2: the value"},
		{"control characters", "description: a\u0001b\nname: x\n", stepEntries, "a\u0001b", "control characters"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			assert.Equal(t, tt.step, parseHeader(fenced(tt.header)).step)
			s, notes := parseSkill(fenced(tt.header))
			if tt.description == "" {
				assert.NotEmpty(t, refusal(notes))
			} else {
				require.Empty(t, refusal(notes))
				assert.Equal(t, tt.description, s.Description)
			}
			assert.Contains(t, noteLines(notes, Warning), tt.note)
			assert.Equal(t, tt.step == stepStrict, len(noteLines(notes, Warning)) == 0, "every step after the first leaves a diagnostic")
		})
	}
}

func TestHeaderRefusesOnce(t *testing.T) {
	_, notes := parseSkill(fenced("description: &d x\nallowed-tools: Read\n"))
	assert.Equal(t, []note{{2, Refused, "the header uses an anchor (`&`), which skills must not"}}, notes)
}

func TestDecodeYAMLRecovers(t *testing.T) {
	// These make yaml.v3 panic when it decodes into maps; as nodes they do not,
	// and an input that still does must be an error.
	for _, text := range []string{"name: a\n? - x\n: y\n<<:\n- - q\n", "name: z\nmetadata: {{}, <<}\n", "#\n  -\n  -\n#\n- - -\n", ":\n- ? \n-"} {
		assert.NotPanics(t, func() { _, _ = decodeYAML(text) }, "%q", text)
	}
}

func TestHeaderRefuses(t *testing.T) {
	for _, tt := range []struct{ name, header, want string }{
		{"anchor", "description: &d text\n", "2: the header uses an anchor"},
		{"anchor under metadata", "description: d\nmetadata:\n  a: &x y\n", "4: the header uses an anchor"},
		{"anchor on a map", "description: d\nmetadata: &m\n  a: b\n", "3: the header uses an anchor"},
		{"alias", "a: &a x\ndescription: *a\n", "2: the header uses an anchor"},
		{"anchor, another entry broken", "name: a: b\nx: &a y\ndescription: d\n", "3: the header uses an anchor"},
		{"tag", "description: !!str text\n", "2: the header uses a tag"},
		{"tag after a byte order mark", "\ufeffdescription: !x d\n", "2: the header uses a tag"},
		{"local tag", "description: d\nversion: !x 1\n", "3: the header uses a tag"},
		{"bare tag", "description: ! text\n", "2: the header uses a tag"},
		{"merge key", "description: d\n<<: {allowed-tools: Read}\n", "3: the header uses a merge key"},
		{"key that is no text", "description: d\n? [allowed-tools]\n: Read\n", "3: the header uses a list or a map as a key"},
		{"merge conflict", "description: d\n<<<<<<< HEAD\nname: a\n=======\nname: b\n>>>>>>> x\n", "3: the header holds an unresolved merge conflict"},
		{"half a merge conflict", "description: d\nname: b\n>>>>>>> x\n", "4: the header holds an unresolved merge conflict"},
		{"merge conflict in quotes", "description: \"d\n<<<<<<< HEAD\n\"\n", "3: the header holds an unresolved merge conflict"},
		{"description missing", "name: x\n", "1: the header has no description"},
		{"description null", "description:\n", "2: the description is blank"},
		{"description ~", "description: ~\n", "2: the description is blank"},
		{"description only a comment", "description: # Chemistry\n", "2: the description is blank"},
		{"description list", "description: [a]\n", "2: the description is a list or a map"},
		{"description map", "description:\n  a: b\n", "2: the description is a list or a map"},

		{"allowed-tools map", "description: d\nallowed-tools: {Read: yes}\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools number", "description: d\nallowed-tools: 5\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools boolean", "description: d\nallowed-tools: true\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools with a number", "description: d\nallowed-tools: [Read, 5]\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools with a list", "description: d\nallowed-tools: [[Read]]\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools of objects", "description: d\nallowed-tools:\n- name: Read\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools of a real map", "description: d\nallowed-tools:\n- WebFetch(a:\n    b: c\n", "3: the value of `allowed-tools` is neither"},
		{"allowed-tools twice, other spelling", "description: d\nAllowed Tools: Read\nallowed_tools: Write\n", "4: the key `allowed-tools` is given more than once"},
		{"allowed-tools lost", "description: d\nallowed-tools: 'Read\n", "3: the value of `allowed-tools` is lost"},
		{"allowed-tools of several broken lines", "description: d\nallowed-tools:\n  - Read\n  Write\n", "3: the value of `allowed-tools` is not valid YAML"},
		{"allowed-tools broken, on the next line", "description: d\nallowed-tools:\n  *\n", "3: the value of `allowed-tools` is not valid YAML"},
		{"allowed-tools broken, with a comment", "description: d\nallowed-tools: Bash(a: b) # Write\n", "3: the value of `allowed-tools` is not valid YAML"},
		{"disallowed-tools map", "description: d\ndisallowed-tools: {Bash: yes}\n", "3: the value of `disallowed-tools` is neither"},
		{"disallowed-tools lost", "description: d\ndisallowed-tools: \"Bash\n", "3: the value of `disallowed-tools` is lost"},
		{"disallowed-tools twice", "description: d\ndisallowed-tools: Bash\nDisallowed_Tools: Write\n", "4: the key `disallowed-tools` is given more than once"},
		{"disallowed-tools *", "description: d\ndisallowed-tools: \"*\"\n", "3: the entry \"*\" of `disallowed-tools` is neither"},
		{"disallowed-tools unknown", "description: d\ndisallowed-tools: Bash(rm\n", "3: the entry \"Bash(rm\" of `disallowed-tools` is neither"},
		{"disable-model-invocation lost", "description: d\ndisable-model-invocation: \"true\n", "3: the value of `disable-model-invocation` is lost"},
		{"user-invocable lost", "description: d\nuser-invocable: 'false\n", "3: the value of `user-invocable` is lost"},

		{"misspelt by one", "description: d\nallowed-tool: Read\n", "3: the key \"allowed-tool\" is unknown; `allowed-tools` is probably meant"},
		{"misspelt by two", "description: d\nalowd_tools: Read\n", "`allowed-tools` is probably meant"},
		{"misspelt ban", "description: d\ndissallowed-tools: Bash\n", "`disallowed-tools` is probably meant"},
		{"misspelt boolean", "description: d\ndisable-model-invokation: true\n", "`disable-model-invocation` is probably meant"},
		{"misspelt alias", "description: d\nuser-invokeable: false\n", "`user-invocable` is probably meant"},
		{"misspelt, and lost", "description: d\nallowed-tool: \"Read\n", "`allowed-tools` is probably meant"},
		{"a non-breaking hyphen", "description: d\nallowed\u2011tools: Read\n", "`allowed-tools` is probably meant"},

		{"two lines glued", "description: How to: x.allowed-tools: Read\n", "2: `allowed-tools` seems to stand in the middle"},
		{"three lines glued", "description: d: x\nallowed-tools: Read user_invocable : false\n", "3: `user-invocable` seems to stand in the middle"},
		{"glued, and lost", "name: x\ndescription: \"d disallowed-tools: Bash\n", "3: `disallowed-tools` seems to stand in the middle"},
		{"no blank after the colon", "description: d\nallowed-tools:Read\n", "2: `allowed-tools` seems to stand in the middle"},
		{"a full-width colon", "description: d\nallowed-tools：Read\n", "2: `allowed-tools` seems to stand in the middle"},
		{"indented by mistake", "description: d\n  allowed-tools: Read\n", "2: `allowed-tools` seems to stand in the middle"},
		{"before the first key", "  allowed-tools: Read\ndescription: d\n", "2: `allowed-tools` seems to stand in the middle"},
		{"after an end mark", "description: d\n...\n  allowed-tools: Read\n", "2: `allowed-tools` seems to stand in the middle"},
		{"inside a quote", "description: \"a\nallowed-tools: Read\nb\"\n", "3: a line begins with `allowed-tools`, but it is part of another value"},
		{"the colon forgotten", "description: d\nallowed-tools Read\n", "3: a line begins with `allowed-tools`, but it is part of another value"},
		{"the colon forgotten, another there", "description: d\nallowed-tools WebFetch(domain: x)\n", "3: a line begins with `allowed-tools`"},
		{"there, and inside a quote", "allowed-tools: Read\ndescription: \"a\nallowed-tools: Write\nb\"\n", "4: a line begins with `allowed-tools`"},
		{"inside a flow map", "description: d\nmetadata: {\n\"user-invocable\": false\n}\n", "4: a line begins with `user-invocable`, but it is part"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, notes := parseSkill(fenced(tt.header))
			assert.Contains(t, refusal(notes), tt.want)
		})
	}
}

// Every row of section 4's table of keys.
func TestHeaderKeys(t *testing.T) {
	for _, tt := range []struct {
		name, header string
		get          func(Skill) any
		want         any
		note         string // of a warning; "": there is none
	}{
		{"description number", "description: 1.10", func(s Skill) any { return s.Description }, "1.10", ""},
		{"description boolean", "description: yes", func(s Skill) any { return s.Description }, "yes", ""},
		{"description \"null\"", "description: \"null\"", func(s Skill) any { return s.Description }, "null", ""},
		{"description over lines", "description: a\n  b", func(s Skill) any { return s.Description }, "a b", ""},
		{"name", "description: d\nname: 退款", func(s Skill) any { return s.DisplayName }, "退款", ""},
		{"name in brackets", "description: d\nname: [draft: x] # y", func(s Skill) any { return s.DisplayName }, "[draft: x]", ""},
		{"name null", "description: d\nname: ~", func(s Skill) any { return s.DisplayName }, "", ""},
		{"when_to_use", "description: d\nwhen_to_use: w", func(s Skill) any { return s.WhenToUse }, "w", ""},
		{"when-to-use", "description: d\nWhen to-use: w", func(s Skill) any { return s.WhenToUse }, "w", ""},

		{"allowed-tools list", "description: d\nallowed-tools:\n- Read, Grep\n- Bash(git log:*)\n-", func(s Skill) any { return s.AllowedTools }, []string{"Read", "Grep", "Bash(git log:*)"}, ""},
		{"allowed-tools item that is a map", "description: d\nallowed-tools:\n- WebFetch(domain:  x.org) # c\n- Read", func(s Skill) any { return s.AllowedTools }, []string{"WebFetch(domain:  x.org)", "Read"}, ""},
		{"allowed-tools cut at a comma", "description: d\nallowed-tools: [Bash(git log --format=%h, --stat), WebFetch(domain: x), Read]", func(s Skill) any { return s.AllowedTools }, []string{"Bash(git log --format=%h, --stat)", "WebFetch(domain: x)", "Read"}, ""},
		{"allowed-tools blank before (", "description: d\nallowed-tools: Skill (mem, hist), Read", func(s Skill) any { return s.AllowedTools }, []string{"Skill (mem, hist)", "Read"}, ""},
		{"allowed-tools *", "description: d\nallowed-tools: *", func(s Skill) any { return s.AllowedTools }, []string{"*"}, "matches nothing"},
		{"allowed-tools unknown", "description: d\nallowed-tools: Read, Bash(git", func(s Skill) any { return s.AllowedTools }, []string{"Read", "Bash(git"}, "matches nothing"},
		{"allowedTools", "description: d\nallowedTools: Read", func(s Skill) any { return s.AllowedTools }, []string{"Read"}, ""},
		{"allowed-tools broken on one line", "description: d\nallowed-tools: Bash(a: b) Read", func(s Skill) any { return s.AllowedTools }, []string{"Bash(a: b)", "Read"}, "not valid YAML"},
		{"tools", "description: d\ntools: Read", func(s Skill) any { return s.AllowedTools }, []string(nil), "`tools` restricts nothing"},
		{"tools is carried", "description: d\ntools: [Read]", func(s Skill) any { return s.Metadata }, map[string]string{"tools": "[Read]"}, "`tools` restricts nothing"},

		{"disallowed-tools", "description: d\ndisallowed-tools: Bash mcp__*", func(s Skill) any { return s.DisallowedTools }, []string{"Bash", "mcp__*"}, ""},
		{"disallowed-tools is no limit", "description: d\ndisallowed-tools: Bash", func(s Skill) any { return s.AllowedTools }, []string(nil), ""},
		{"disallowed-tools restricts", "description: d\ndisallowed-tools: Bash", func(s Skill) any { return s.Restricted }, true, ""},
		{"disallowed-tools with parentheses", "description: d\ndisallowed-tools: Bash (rm:*)", func(s Skill) any { return s.DisallowedTools }, []string{"Bash"}, "bans Bash whatever its input is"},
		{"disallowed-tools empty", "description: d\ndisallowed-tools:", func(s Skill) any { return s.DisallowedTools }, []string{}, "bans nothing"},
		{"disallowed-tools empty restricts", "description: d\ndisallowed-tools: []", func(s Skill) any { return s.Restricted }, true, "bans nothing"},

		{"arguments", "description: d\narguments: order  amount", func(s Skill) any { return s.Arguments }, []string{"order", "amount"}, ""},
		{"arguments list", "description: d\narguments: [order, 12, '', SKILL_DIR, ~]", func(s Skill) any { return s.Arguments }, []string{"order"}, "cannot be the name of an argument"},
		{"arguments reserved", "description: d\narguments: ARGUMENTS SESSION_ID a1", func(s Skill) any { return s.Arguments }, []string{"a1"}, "cannot be the name of an argument"},
		{"argument-hint", "description: d\nargument-hint: \"[a] [b]\"", func(s Skill) any { return s.ArgumentHint }, "[a] [b]", ""},
		{"argument-hint list", "description: d\nargument-hint: [a, \"]\", 'it''s ]', {b: c}] # x ]", func(s Skill) any { return s.ArgumentHint }, "[a, \"]\", 'it''s ]', {b: c}]", ""},
		{"argument-hint with an apostrophe", "description: d\nargument-hint: [it's, x] # y", func(s Skill) any { return s.ArgumentHint }, "[it's, x]", ""},
		{"argument-hint over lines", "description: d\nargument-hint: [a, # ]\n  b]\nname: x", func(s Skill) any { return s.ArgumentHint }, "[a, # ]\n  b]", ""},

		{"model", "description: d\nmodel: haiku", func(s Skill) any { return s.Model }, "haiku", ""},
		{"model inherit", "description: d\nmodel: inherit", func(s Skill) any { return s.Model }, "", ""},
		{"paths", "description: d\npaths: src/**, docs/*.md", func(s Skill) any { return s.Paths }, []string{"src", "docs/*.md"}, ""},
		{"paths with braces", "description: d\npaths: **/*.{ts,tsx}", func(s Skill) any { return s.Paths }, []string{"**/*.{ts,tsx}"}, "not valid YAML"},
		{"paths list", "description: d\npaths: [src/**, '**']", func(s Skill) any { return s.Paths }, []string{"src", "**"}, ""},
		{"paths that YAML reads as maps", "description: d\npaths: [a: b, c, {d: e}, f: g]", func(s Skill) any { return s.Paths }, []string{"a: b", "c", "{d: e}", "f: g"}, ""},
		{"paths **", "description: d\npaths: ['**', '**/**', '/**']", func(s Skill) any { return s.Paths }, []string(nil), ""},
		{"shell", "description: d\nshell: zsh", func(s Skill) any { return s.Shell }, "zsh", ""},
		{"version", "description: d\nversion: 1.10", func(s Skill) any { return s.Version }, "1.10", ""},
		{"license", "description: d\nlicense: MIT", func(s Skill) any { return s.License }, "MIT", ""},
		{"compatibility", "description: d\ncompatibility:\n  - linux\n  - mac\n# x\n", func(s Skill) any { return s.Compatibility }, "- linux\n  - mac", ""},

		{
			"metadata", "description: d\nmetadata: {a: {b: [1, \"]\"]}, c: 1.0, d: ~}\nauthor: x", func(s Skill) any { return s.Metadata },
			map[string]string{"a": "{b: [1, \"]\"]}", "c": "1.0", "d": "~", "author": "x"},
			"",
		},
		{"metadata before an unknown key", "description: d\nmetadata:\n  author: a\nauthor: b", func(s Skill) any { return s.Metadata }, map[string]string{"author": "a"}, ""},
		{"metadata null", "description: d\nmetadata:", func(s Skill) any { return s.Metadata }, map[string]string(nil), ""},
		{"metadata list", "description: d\nmetadata: [a]", func(s Skill) any { return s.Metadata }, map[string]string{"metadata": "[a]"}, ""},
		{"metadata hides a restriction", "description: d\nmetadata:\n  allowed-tools: Read", func(s Skill) any { return s.Restricted }, false, "`allowed-tools` inside `metadata` restricts nothing"},
		{"unknown twice", "description: d\nx: a\nx: b", func(s Skill) any { return s.Metadata }, map[string]string{"x": "b"}, "\"x\" is given more than once"},
		{"unknown and lost", "description: d\nx: \"a", func(s Skill) any { return s.Metadata }, map[string]string{}, "the entry is lost"},
		{"unknown with wide characters", "description: d\n备注: [甲, 乙]", func(s Skill) any { return s.Metadata }, map[string]string{"备注": "[甲, 乙]"}, ""},
		{"a list item is no key", "description: d\nx: a: b\ntags:\n- name: y", func(s Skill) any { return s.Metadata }, map[string]string{"x": "a: b", "tags": "- name: y"}, "not valid YAML"},
		{"a key in quotes", "description: d\n\"x \\\"1\\u0021\": a: b", func(s Skill) any { return s.Metadata }, map[string]string{`x "1!`: "a: b"}, "not valid YAML"},
		{"three edits from a restriction", "description: d\nallowed-toolsets: x", func(s Skill) any { return s.Restricted }, false, ""},
		{"unknown near a known one", "description: d\nlicence: MIT", func(s Skill) any { return s.License }, "", "`license` may be meant"},
		{"unknown near none", "description: d\nhooks: x", func(s Skill) any { return s.Metadata["hooks"] }, "x", ""},

		{"a plain value cut at #", "description: d\nversion: 1 # x", func(s Skill) any { return s.Version }, "1", "for a comment"},
		{"a second line cut at #", "description: d\n  e # x", func(s Skill) any { return s.Description }, "d e", "for a comment"},
		{"a value that is a comment", "description: d\nversion: # 1", func(s Skill) any { return s.Version }, "", "for a comment"},
		{"# inside a word", "description: C# and F#, issue/#12", func(s Skill) any { return s.Description }, "C# and F#, issue/#12", ""},
		{"# in quotes", "description: \"a #b\" # c", func(s Skill) any { return s.Description }, "a #b", ""},
		{"# in a block", "description: | # c\n  a #b", func(s Skill) any { return s.Description }, "a #b\n", ""},
		{"a comment line", "description: d\n# x #y\nname: n", func(s Skill) any { return s.DisplayName }, "n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, notes := readHeader(t, tt.header+"\n")
			assert.Equal(t, tt.want, tt.get(s))
			warnings := noteLines(notes, Warning)
			if tt.note == "" {
				assert.Empty(t, warnings)
			} else {
				assert.Contains(t, warnings, tt.note)
			}
		})
	}
}

func TestHeaderBooleans(t *testing.T) {
	for value, want := range map[string]struct{ known, value bool }{
		"true": {true, true}, "Yes": {true, true}, "ON": {true, true}, "1": {true, true}, "\"true\"": {true, true}, "' yes '": {true, true},
		"false": {true, false}, "NO": {true, false}, "off": {true, false}, "0": {true, false}, "'False'": {true, false},
		"": {}, "~": {}, "y": {}, "maybe": {}, "2": {}, "[false]": {}, "{a: b}": {}, "\"\"": {}, "false: x": {}, "false true": {},
	} {
		s, notes := readHeader(t, "description: d\ndisable-model-invocation: "+value+"\nUser_Invokable: "+value+"\n")
		assert.Equal(t, !want.known || want.value, s.DisableModelInvocation, "%q: what is not false counts as true", value)
		assert.Equal(t, want.known && want.value, s.UserInvocable, "%q: what is not true counts as false", value)
		assert.Equal(t, !want.known, strings.Contains(noteLines(notes, Warning), "is neither true nor false"), "%q: %v", value, notes)
	}
	s, notes := readHeader(t, "description: d\n")
	assert.False(t, s.DisableModelInvocation)
	assert.True(t, s.UserInvocable)
	assert.Empty(t, notes)

	for _, header := range []string{
		"disable-model-invocation: true\ndisable-model-invocation: false\nuser-invocable: no\nuser-invocable: yes\n",
		"disable-model-invocation: false\nDisable Model Invocation: true\nuser-invocable: yes\nuser-invokable: no\n",
	} {
		s, notes := readHeader(t, "description: d\n"+header)
		assert.True(t, s.DisableModelInvocation, "given twice, the strict value counts")
		assert.False(t, s.UserInvocable, "given twice, the strict value counts")
		assert.Contains(t, noteLines(notes, Warning), "4: the key `disable-model-invocation` is given more than once")
	}
}

// Lines are lines of the file, also where YAML breaks more of them.
func TestHeaderLines(t *testing.T) {
	_, notes := parseSkill("\n\n---\ndescription: a\u2028name: b\n\nallowed-tool: Read\n---\n")
	assert.Equal(t, "6: the key \"allowed-tool\" is unknown; `allowed-tools` is probably meant", refusal(notes))
}

func TestHeaderNotesQuoteUntrustedText(t *testing.T) {
	_, notes := readHeader(t, "description: d\n\"x\\n\\u202ey"+strings.Repeat("z", 100)+"\": a: b\n")
	require.Len(t, notes, 1)
	assert.NotContains(t, notes[0].message, "\n")
	assert.Contains(t, notes[0].message, `"x\n\u202ey`)
	assert.Less(t, len(notes[0].message), 250)
}

func TestEditDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"name", "name", 0},
		{"name", "neam", 2},
		{"name", "names", 1},
		{"name", "ame", 1},
		{"退款", "退貨", 1},
		{"kitten", "sitting", 3},
		{"", "abcd", 4},
	} {
		assert.Equal(t, tt.want, editDistance([]rune(tt.a), []rune(tt.b)), "%q %q", tt.a, tt.b)
		assert.Equal(t, tt.want, editDistance([]rune(tt.b), []rune(tt.a)), "%q %q", tt.b, tt.a)
	}
}

// restrictionLost reads a header as a person does, by lines, and returns the
// restriction key that begins a line of it and that the skill does not show,
// or "".
func restrictionLost(text string, s Skill) string {
	rest := regexp.MustCompile(`\A(?:\s*\n)?---[ \t]*\n`).Split(text, 2)
	if len(rest) < 2 {
		return ""
	}
	block := regexp.MustCompile(`(?m)^---[ \t]*$`).Split(rest[1], 2)[0]
	lines := regexp.MustCompile("\r\n|[\r\n\u0085\u2028\u2029]").Split(block, -1)
	for i, line := range lines {
		head, value, found := strings.Cut(line, ":")
		if !found || strings.HasPrefix(head, " ") || strings.HasPrefix(head, "\t") {
			continue
		}
		for _, next := range lines[i+1:] {
			if strings.Contains(next, ":") {
				break
			}
			value += "\n" + next
		}
		lost := false
		key := strings.Map(onlyWord, strings.ReplaceAll(strings.ToLower(strings.Trim(head, `"' `)), "_", ""))
		switch key {
		case "allowedtools":
			lost = s.AllowedTools == nil
		case "disallowedtools":
			lost = s.DisallowedTools == nil
		case "disablemodelinvocation":
			lost = !s.DisableModelInvocation && !saysOneOf(value, "false", "no", "off", "0")
		case "userinvocable", "userinvokable":
			lost = s.UserInvocable && !saysOneOf(value, "true", "yes", "on", "1")
		}
		if lost {
			return key
		}
	}
	return ""
}

func onlyWord(r rune) rune {
	if unicode.IsLetter(r) || unicode.IsDigit(r) {
		return r
	}
	if unicode.IsSpace(r) || r == '-' {
		return -1
	}
	return '?' // no part of a key's spelling
}

// saysOneOf reports whether a value's source can be read as one of the words:
// comments, quotes and what follows in a flow map aside. An escape may hide a
// word.
func saysOneOf(value string, words ...string) bool {
	value, _, _ = strings.Cut(regexp.MustCompile(`#.*`).ReplaceAllString(value, ""), ",")
	value = regexp.MustCompile(`[?}].*`).ReplaceAllString(value, "")
	plain := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, value)
	return strings.Contains(value, `\`) || slices.Contains(words, plain)
}

// restrictions are lines that restrict a skill, in the spellings of the wild.
var restrictions = []string{
	"allowed-tools: Read\n", "allowed_tools: [Read, Grep]\n", "Allowed Tools:\n  - Read\n", "\"allowed-tools\": 'Read'\n", "allowed-tools:\n",
	"disallowed-tools: Bash\n", "disallowedTools:\n- Bash\n", "disable-model-invocation: true\n", "Disable_Model_Invocation: maybe\n",
	"user-invocable: false\n", "user-invokable: \"no\"\n",
}

// Rule (4): a header problem can make a skill unavailable; it can never make
// it less restricted. Each damage meets each restriction.
func TestRuleHeaderNeverLessRestricted(t *testing.T) {
	indent := func(s string) string {
		return "  " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
	}
	for name, damage := range map[string]func(restriction string) string{
		"none":                func(r string) string { return "description: d\n" + r },
		"colon above":         func(r string) string { return "description: a: b\n" + r },
		"colon below":         func(r string) string { return "description: d\n" + r + "x: a: b\n" },
		"quote above":         func(r string) string { return "description: d\nx: \"a\n" + r },
		"quotes around":       func(r string) string { return "description: \"d\n" + r + "e\"\n" },
		"apostrophes around":  func(r string) string { return "description: 'd\n" + r + "e'\n" },
		"quote below":         func(r string) string { return "description: d\n" + r + "x: \"a\n" },
		"prose above":         func(r string) string { return "description: d\nand so on\n" + r },
		"prose below":         func(r string) string { return "description: d\n" + r + "and so on\n" },
		"prose first":         func(r string) string { return "# Title\ntext\n" + r + "description: d\n" },
		"flow above":          func(r string) string { return "description: d\nx: [a, {b\n" + r },
		"flow around":         func(r string) string { return "description: d\nx: {\n" + r + "}\n" },
		"block above":         func(r string) string { return "description: |\n  d\n" + r },
		"block of text above": func(r string) string { return "description: > d\n" + r },
		"tab above":           func(r string) string { return "description: d\nx:\n\ta: b\n" + r },
		"bad escape above":    func(r string) string { return "description: d\nx: \"\\ud83d\"\n" + r },
		"control character":   func(r string) string { return "description: d\x01\n" + r },
		"alias above":         func(r string) string { return "description: *d\n" + r },
		"anchor above":        func(r string) string { return "description: &d e\n" + r },
		"duplicate above":     func(r string) string { return "description: d\ndescription: e\n" + r },
		"twice":               func(r string) string { return "description: d\n" + r + r },
		"lax boolean below": func(r string) string {
			return "description: d\n" + r + "disable-model-invocation: no\nuser-invocable: yes\n"
		},
		"end mark above":        func(r string) string { return "description: d\n...\n" + r },
		"end mark and indented": func(r string) string { return "description: d\n...\n" + indent(r) },
		"merge conflict above":  func(r string) string { return "description: d\n<<<<<<< x\n" + r },
		"merge conflict below":  func(r string) string { return "description: d\n" + r + "=======\n>>>>>>> x\n" },
		"indented":              func(r string) string { return "description: d\n" + indent(r) },
		"glued":                 func(r string) string { return "description: a: b" + r },
		"glued below":           func(r string) string { return "description: d\n" + strings.TrimSuffix(r, "\n") + "x: a: b\n" },
		"no blank":              func(r string) string { return "description: d\n" + strings.Replace(r, ": ", ":", 1) },
		"line separator":        func(r string) string { return "description: d\u2028" + r },
		"explicit key":          func(r string) string { return "description: d\n? x\n: y\n" + r },
		"list above":            func(r string) string { return "- a\n- b: c\n" + r + "description: d\n" },
		"many columns":          func(r string) string { return "description: d\nx: " + strings.Repeat("[", 200) + "\n" + r },
	} {
		t.Run(name, func(t *testing.T) {
			for _, restriction := range restrictions {
				text := fenced(damage(restriction))
				s, notes := parseSkill(text)
				if refusal(notes) == "" {
					assert.Empty(t, restrictionLost(text, s), "%s", text)
					plain, _ := readHeader(t, "description: d\n"+restriction)
					assert.False(t, lessRestricted(s, plain), "%s", text)
				}
			}
		})
	}
}

// lessRestricted reports whether a lacks a restriction that b has.
func lessRestricted(a, b Skill) bool {
	return a.AllowedTools == nil && b.AllowedTools != nil || a.DisallowedTools == nil && b.DisallowedTools != nil ||
		!a.DisableModelInvocation && b.DisableModelInvocation || a.UserInvocable && !b.UserInvocable
}

// The same rule for every slip of one key: a character more, anywhere in a
// header, or one less.
func TestRuleHeaderNeverLessRestrictedByASlip(t *testing.T) {
	const header = "description: d\nallowed-tools: Read\ndisallowed-tools: Bash\ndisable-model-invocation: true\nuser-invocable: false\n"
	want, _ := readHeader(t, header)
	check := func(slip string, comment bool) {
		s, notes := parseSkill(fenced(slip))
		if refusal(notes) == "" && !comment {
			assert.False(t, lessRestricted(s, want), "%s", slip)
		}
	}
	for i := range header {
		lineStart := i == 0 || header[i-1] == '\n'
		inKey := !lineStart && !strings.Contains(header[strings.LastIndexByte(header[:i], '\n')+1:i], ":")
		for _, c := range "\"'`#:|>&*![{},%-?\\ x\t\n\u00a0" {
			// A comment sign before a key, and a line break within one, take the key away.
			check(header[:i]+string(c)+header[i:], c == '#' && lineStart || c == '\n' && inKey)
		}
		check(header[:i]+header[i+1:], false)
	}
}

// FuzzHeader states the rule for any text, and for a restriction with any text
// above and below it: parsing never panics, depends on nothing but the text,
// and a restriction key that begins a line of the header shows in the skill, or
// the skill is refused.
func FuzzHeader(f *testing.F) {
	for i := range restrictions {
		f.Add("description: d", "", uint8(i))
		f.Add("description: a: b", "x: \"c", uint8(i))
	}
	for _, above := range []string{
		"", "---\ndescription: d\n---", "description: |\n  before\n  ---\n  after\nname: x", "name: a\n? - x\n: y\n<<:\n- - q",
		"metadata: {{}, <<}", "{description: d,\nx: [Bash(a, b), W(x: y)]", "description: 'it''s'\nargument-hint: [a] [b]\npaths: **/*.{ts,tsx}\narguments: a 1",
		"description: \"\\ud83d\\ude00\"\ndisable-model-invocation: |\n  off\nuser-invocable: # c\n  yes", "description: \"d",
	} {
		f.Add(above, "x: y", uint8(0))
		f.Add(above, "\f: \"c", uint8(7))
		f.Add(above, "e\"\n}", uint8(7))
	}
	f.Fuzz(func(t *testing.T, above, below string, n uint8) {
		restriction := restrictions[int(n)%len(restrictions)]
		for _, text := range []string{above, fenced(above + "\n"), fenced(above + "\n" + restriction + below + "\n")} {
			checkHeader(t, text)
		}
	})
}

func checkHeader(t *testing.T, text string) {
	if !utf8.ValidString(text) || strings.ContainsAny(text, "\r\x00") || strings.HasPrefix(text, "\ufeff") {
		return // the loader hands over normalised text
	}
	s, notes := parseSkill(text)
	again, notesAgain := parseSkill(text)
	require.Equal(t, s, again)
	require.Equal(t, notes, notesAgain)
	for _, n := range notes {
		require.Positive(t, n.line)
		require.NotContains(t, n.message, "\n")
	}
	if refusal(notes) != "" {
		return
	}
	require.NotEmpty(t, strings.TrimSpace(s.Description))
	require.Equal(t, s.AllowedTools != nil || s.DisallowedTools != nil, s.Restricted)
	require.Empty(t, restrictionLost(text, s), "%q is less restricted than its text", text)
	for _, ban := range s.DisallowedTools {
		_, _, err := parseBan(ban)
		require.NoError(t, err)
	}
}

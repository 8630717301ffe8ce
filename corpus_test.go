package skillbay

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// corpusDir holds real public SKILL.md files and what other YAML readers make
// of their headers. It is not part of the repository.
const corpusDir = "../shared/corpus"

// corpusRefused are the files of the corpus that are refused, by the rule of
// the specification that refuses them and the words of the diagnostic.
var corpusRefused = []struct {
	rule, message string
	files         []string
}{
	{"3.7: NUL bytes and UTF-16", "", []string{
		"files/AgentWorkers__skills/contentgroove",
		"files/sickn33__antigravity-awesome-skills/auri-core",
		"synthetic/files/utf16le",
	}},
	{"4: anything but blank lines before the first fence is no header", "does not begin with a line of `---`", []string{
		"files/AgentWorkers__skills/4d-compression-core",
		"files/AgentWorkers__skills/clean-skill",
		"files/AgentWorkers__skills/dolphin-anty",
		"files/AgentWorkers__skills/dsp", // a no-break space after the hyphens
		"files/AgentWorkers__skills/ellya",
		"files/AgentWorkers__skills/go-install",
		"files/AgentWorkers__skills/gold-price-mcp",
		"files/AgentWorkers__skills/instagram-analyzer",
		"files/AgentWorkers__skills/korail-manager",
		"files/AgentWorkers__skills/openclaw-deploy",
		"files/AgentWorkers__skills/social-media-lead-generation",
		"files/agno-agi__agno/haiku",
		"files/jeremylongshore__claude-code-plugins-plus-skills~2/skill-adapter",
		"files/jleechanorg__claude-commands/karpathy-wiki",
		"files/jleechanorg__claude-commands/zero-touch-metrics",
		"files/openclaw__skills/brainstorming-studio",
		"files/openclaw__skills/hvac-estimate-takeoff",
		"files/openclaw__skills/moltwallet",
		"files/openclaw__skills/polymarket-traiding-bot",
		"files/openclaw__skills/tesy",
		"files/openclaw__skills/udau",
		"files/thedotmack__claude-mem~symlink/do",
		"files/thedotmack__claude-mem~symlink/make-plan",
		"files/trpc-group__trpc-agent-go/hello",
	}},
	{"4: no closing fence is no header", "no line of `---` closes the header", []string{
		"files/openclaw__skills/communication-skill",
		"files/openclaw__skills/gogcli",
		"files/openclaw__skills/mcporter-skill",
		"files/openclaw__skills/morning-briefing",
		"synthetic/files/dots-terminator",
	}},
	{"4: an entry that opens a quote and never closes it is lost", "the description is lost", []string{
		"files/AgentWorkers__skills/openclaw-youtube-transcript",
		"files/AgentWorkers__skills/slide-maker",
		"files/jleechanorg__claude-commands/long-task-claudem-tmux",
	}},
	{"4: an unresolved merge conflict", "merge conflict", []string{
		"files/openclaw__skills/obsidian-daily",
	}},
	{"4: anchors and aliases", "an anchor", []string{
		"synthetic/files/alias-bomb",
		"synthetic/files/anchors",
	}},
	{"4: a description is required", "the header has no description", []string{
		"files/AgentWorkers__skills/snek", // no key at column 0
		"files/AgentWorkers__skills/tesy", // no key at column 0
		"files/EveryInc__compound-engineering-plugin/custom-skill",
		"files/neondatabase__agent-skills/score-eval",
		"synthetic/files/empty-fm",
	}},
	{"4: a description that is only a comment is blank", "the description is blank", []string{
		"synthetic/files/desc-comment",
	}},
}

// corpusDifferent are the files whose description is not the oracle's, by the
// rule that decides for another text.
var corpusDifferent = []struct {
	rule  string
	files []string
}{
	{"4: what YAML refuses is its source text; text after a closing quote leaves the quotes in it", []string{
		"files/AgentWorkers__skills/beancount",
		"files/AgentWorkers__skills/bmi-calculator",
		"files/AgentWorkers__skills/chat-ui",
		"files/AgentWorkers__skills/trivia-quiz",
		"files/AgentWorkers__skills/webpack-config",
	}},
	{"4: `---x` never closes the header and belongs to the entry before it", []string{
		"files/AgentWorkers__skills/ranking-of-claws",
		"synthetic/files/glued-close",
	}},
}

// oracle is a line of the corpus' oracle.jsonl, as far as the test uses it.
type oracle struct {
	Path            string          `json:"path"`
	Confidence      string          `json:"confidence"`
	Name            *string         `json:"name"`
	Description     string          `json:"description"`
	AllowedRaw      string          `json:"allowed_tools_raw"`
	AllowedValue    json.RawMessage `json:"allowed_tools_value"`
	Allowed         []string        `json:"allowed_tools"` // of synthetic files
	ArgumentHintRaw string          `json:"argument_hint_raw"`
	ArgumentHint    string          `json:"argument_hint"` // of synthetic files
	Body            *int            `json:"body_bytes"`
}

func readOracles(t *testing.T, dir string) map[string]oracle {
	data, err := os.ReadFile(filepath.Join(corpusDir, dir, "oracle.jsonl"))
	require.NoError(t, err)
	oracles := make(map[string]oracle)
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var o oracle
		if err := dec.Decode(&o); errors.Is(err, io.EOF) {
			return oracles
		} else {
			require.NoError(t, err)
		}
		oracles[filepath.ToSlash(filepath.Join(dir, filepath.Dir(o.Path)))] = o
	}
}

// tools is the list that the oracle reads; ok is false if it tells none.
func (o oracle) tools(t *testing.T) (list []string, ok bool) {
	switch {
	case o.Allowed != nil:
		return o.Allowed, true
	case !strings.HasPrefix(foldKey(o.AllowedRaw), "allowedtools:"):
		return nil, false // none, or the key `tools`
	case len(o.AllowedValue) == 0 || string(o.AllowedValue) == "null": // strict YAML refused the header
		_, value, _ := strings.Cut(o.AllowedRaw, ":")
		for line := range strings.SplitSeq(value, "\n") {
			line, _, _ = strings.Cut(line, " #")
			list = append(list, splitTools(strings.TrimPrefix(strings.TrimSpace(line), "- "))...)
		}
		return list, true
	}
	var text string
	if json.Unmarshal(o.AllowedValue, &text) == nil {
		return splitTools(text), true
	}
	require.NoError(t, json.Unmarshal(o.AllowedValue, &list), "%s", o.Path)
	return list, true
}

// Each file of the corpus either gives the oracle's values, or is refused or
// read otherwise under a rule named above; and none is less restricted than its
// text says.
func TestCorpus(t *testing.T) {
	if _, err := os.Stat(corpusDir); errors.Is(err, fs.ErrNotExist) {
		t.Skip("the corpus is not here")
	}
	var files []string
	for _, pattern := range []string{"files/*/*/SKILL.md", "synthetic/files/*/SKILL.md"} {
		found, err := filepath.Glob(filepath.Join(corpusDir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, found, "no file matches %s", pattern)
		files = append(files, found...)
	}
	oracles := readOracles(t, ".")
	maps.Copy(oracles, readOracles(t, "synthetic"))
	require.Len(t, files, len(oracles))

	refusedBy, differsBy := make(map[string]int), make(map[string]string)
	for i, r := range corpusRefused {
		for _, file := range r.files {
			refusedBy[file] = i + 1
		}
	}
	for _, d := range corpusDifferent {
		for _, file := range d.files {
			differsBy[file] = d.rule
		}
	}
	steps, rules := make(map[parseStep]int), make(map[string]int)
	for _, path := range files {
		name, err := filepath.Rel(corpusDir, filepath.Dir(path))
		require.NoError(t, err)
		name = filepath.ToSlash(name)
		t.Run(name, func(t *testing.T) {
			o, known := oracles[name]
			require.True(t, known, "the oracle does not know this file")
			raw, err := os.ReadFile(path)
			require.NoError(t, err)
			text, notes := normalise(raw)
			var s Skill
			step := stepNone
			if refusal(notes) == "" {
				step = parseHeader(text).step
				s, notes = parseSkill(text)
			}
			steps[step]++
			if i := refusedBy[name]; i > 0 {
				r := corpusRefused[i-1]
				rules[r.rule]++
				require.NotEmpty(t, refusal(notes), r.rule)
				assert.Contains(t, refusal(notes), r.message, r.rule)
				return
			}
			require.Empty(t, refusal(notes), "refused, and no rule of the table says so")
			assert.Empty(t, restrictionLost(text, s), "less restricted than its text")
			checkOracle(t, o, s, differsBy[name])
		})
	}
	for _, step := range []parseStep{stepStrict, stepEntries, stepEmpty, stepNone} {
		t.Logf("%4d read by step: %s", steps[step], step)
	}
	for _, rule := range slices.Sorted(maps.Keys(rules)) {
		t.Logf("%4d refused under %s", rules[rule], rule)
	}
}

func checkOracle(t *testing.T, o oracle, s Skill, differs string) {
	same := strings.TrimSpace(s.Description) == strings.TrimSpace(o.Description)
	if differs == "" {
		assert.Equal(t, strings.TrimSpace(o.Description), strings.TrimSpace(s.Description))
	} else {
		assert.False(t, same, "the same after all: %s", differs)
	}
	if o.Name != nil && o.Confidence != "medium" {
		assert.Equal(t, *o.Name, s.DisplayName)
	}
	if want, ok := o.tools(t); ok {
		assert.Equal(t, want, s.AllowedTools)
	}
	if o.ArgumentHintRaw != "" {
		assert.Equal(t, strings.Trim(o.ArgumentHintRaw, `"'`), s.ArgumentHint)
	}
	if o.ArgumentHint != "" {
		assert.Equal(t, o.ArgumentHint, s.ArgumentHint)
	}
	if o.Body != nil {
		assert.Len(t, s.Body, *o.Body)
	}
}

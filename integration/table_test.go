package integration

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/chains"

	"github.com/skillbay/skillbay/integration/wire"
)

var update = flag.Bool("update", false, "rewrite PROVIDERS.md")

// verdict is what the conversation showed.
type verdict string

const (
	works     verdict = "works"
	withNote  verdict = "works with a note"
	cannot    verdict = "cannot"
	beginMark         = "<!-- providers:begin -->"
	endMark           = "<!-- providers:end -->"
)

// remark is what a cell of the table says beside its verdict, and what must
// have been seen for it.
type remark struct {
	why string
	// seen must be in what went wrong: without streaming for a cell that
	// cannot, with streaming for one that works without. Empty: nothing went
	// wrong, and why only tells a circumstance.
	seen string
	// options make the cell work that otherwise cannot, as why says.
	options []chains.ChainCallOption
}

// cell is a provider and a kind of agent.
type cell struct{ provider, kind string }

var noStop = remark{
	why:     "an o-series model takes no `stop`: pass `chains.WithStopWords(nil)` to `chains.Run`",
	seen:    "'stop' is not supported",
	options: []chains.ChainCallOption{chains.WithStopWords(nil)},
}

// remarks are the cells that do not simply work. What each claims is checked.
var remarks = map[cell]remark{
	{"OpenAI o-series", mrkl.name}:           noStop,
	{"OpenAI o-series", conversational.name}: noStop,
	{"Bedrock (Anthropic models)", functions.name}: {
		why:  "not with a streaming function: the client drops tool calls from a stream, which is an error",
		seen: "lost the model's tool calls",
	},
	{"Bedrock (Anthropic models)", loop.name}: {
		why:  "not with a streaming function: the client drops tool calls from a stream, which is an error",
		seen: "lost the model's tool calls",
	},
	{"Mistral", functions.name}: {
		why:  "the client sends tool results without the id that the API asks for",
		seen: "Tool call id has to be defined.",
	},
	{"Mistral", loop.name}: {
		why:  "the client sends tool results without the id that the API asks for",
		seen: "Tool call id has to be defined.",
	},
	{"Ollama", functions.name}: {why: "the client sends no tools; `WrapExecutor` says so", seen: "sends no tools"},
	{"Ollama", loop.name}:      {why: "the client sends no tools", seen: "no tools"},
	{"Cohere", functions.name}: {why: "the client sends no tools, and one message only; `WrapExecutor` says so", seen: "sends no tools"},
	{"Cohere", loop.name}:      {why: "the client sends no tools, and one message only", seen: "no tools"},
}

// TestProviders holds the conversation for every provider, kind of agent and
// streaming mode, checks each cell of the table, and prints the table.
func TestProviders(t *testing.T) {
	verdicts := map[cell]verdict{}
	for _, p := range wire.Providers {
		for _, k := range kinds {
			at := cell{p.Name, k.name}
			t.Run(fmt.Sprintf("%s/%s", p.Name, k.name), func(t *testing.T) {
				v := judgeCell(t, p, k, remarks[at])
				if before, done := verdicts[at]; done {
					assert.Equal(t, before, v, "the two loops differ")
				}
				verdicts[at] = v
			})
		}
	}
	if t.Failed() {
		return
	}
	table := renderTable(verdicts)
	t.Log("\n" + table)
	const path = "PROVIDERS.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(document(table)), 0o600))
	}
	written, err := os.ReadFile(path)
	require.NoError(t, err, "run `go test -update`")
	assert.Equal(t, document(table), string(written), "PROVIDERS.md is old: run `go test -update`")
}

// judgeCell holds the conversation in both streaming modes. It fails the test
// unless what happens is what the remark says, or nothing without one.
func judgeCell(t *testing.T, p wire.Provider, k kind, r remark) verdict {
	plain, streamed := converse(t, p, k, false), converse(t, p, k, true)
	switch {
	case r.options != nil: // it cannot as it is, and works with the options
		assert.Contains(t, strings.Join(plain, "\n"), r.seen)
		assert.Contains(t, strings.Join(streamed, "\n"), r.seen)
		assert.Empty(t, converse(t, p, k, false, r.options...))
		assert.Empty(t, converse(t, p, k, true, r.options...))
		return withNote
	case len(plain) > 0 && r.seen != "":
		assert.Contains(t, strings.Join(plain, "\n"), r.seen)
		assert.NotEmpty(t, streamed)
		return cannot
	case len(streamed) > 0 && r.seen != "":
		assert.Contains(t, strings.Join(streamed, "\n"), r.seen)
		return withNote
	}
	assert.Empty(t, plain, "without streaming")
	assert.Empty(t, streamed, "with streaming")
	assert.Empty(t, r.seen, "the remark says that something goes wrong, and nothing does")
	if r.why != "" {
		return withNote
	}
	return works
}

// columns are the kinds of agents, each once.
func columns() (names []string) {
	for _, k := range kinds {
		if len(names) == 0 || names[len(names)-1] != k.name {
			names = append(names, k.name)
		}
	}
	return names
}

// renderTable is the table in Markdown, without the marks.
func renderTable(verdicts map[cell]verdict) string {
	var b strings.Builder
	b.WriteString("| provider | " + strings.Join(columns(), " | ") + " |\n|---" + strings.Repeat("|---", len(columns())) + "|\n")
	for _, p := range wire.Providers {
		b.WriteString("| " + p.Name)
		for _, name := range columns() {
			at := cell{p.Name, name}
			b.WriteString(" | " + string(verdicts[at]))
			if why := remarks[at].why; why != "" {
				b.WriteString(": " + why)
			}
		}
		b.WriteString(" |\n")
	}
	return b.String()
}

// document is PROVIDERS.md.
func document(table string) string {
	return "# skillbay and langchaingo's provider clients\n\n" +
		"Written by `go test -update` in this directory: langchaingo v0.1.14's clients, driven over loopback servers\n" +
		"that judge requests as the providers do.\n\n" + beginMark + "\n" + table + endMark + "\n"
}

// between is what stands between the marks of a file.
func between(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(data), beginMark+"\n")
	require.True(t, found, "%s has no line %s: put it and %s around the table of integration/PROVIDERS.md", path, beginMark, endMark)
	table, _, found := strings.Cut(rest, endMark)
	require.True(t, found, "%s has no %s after %s", path, endMark, beginMark)
	return table
}

// TestReadme compares README's table with the generated one.
func TestReadme(t *testing.T) {
	assert.Equal(t, between(t, "PROVIDERS.md"), between(t, "../README.md"),
		"README's table is not the generated one: copy it from integration/PROVIDERS.md")
}

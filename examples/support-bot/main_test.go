package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/skillbay/skillbay"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

// asCommand makes the test binary the command itself: the story starts its
// second process from the running executable.
const asCommand = "SUPPORT_BOT_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
	}
	if err := os.Setenv(asCommand, "1"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// command runs the command and returns its exit status and its two outputs.
func command(t *testing.T, in string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(t.Context(), args, strings.NewReader(in), &o, &e)
	return status, o.String(), e.String()
}

func TestStory(t *testing.T) {
	for lang, w := range languages {
		t.Run(lang, func(t *testing.T) {
			status, out, errs := command(t, "", "-lang", lang)
			require.Zero(t, status, "the story goes as told; it said: %s\n%s", errs, out)
			for _, kind := range []string{
				skillbay.EventAnnounced, skillbay.EventInvoked, skillbay.EventDenied,
				skillbay.EventReinjected, skillbay.EventBlocked, skillbay.EventDismissed,
			} {
				assert.Contains(t, out, "⇒ "+kind+"  ", "the transcript shows this event inline")
			}
			assert.Equal(t, 1, strings.Count(out, "⇒ "+skillbay.EventAnnounced), "one announcement in two processes")
			for _, part := range []string{w.notes.stopped, w.notes.onceOnly, w.notes.ledgers, w.notes.tableTitle, w.notes.verdict} {
				assert.Contains(t, out, part)
			}
			assert.Regexp(t, `loyalty +refused, line 3`, out, "the malformed skill is refused with a diagnostic")
			assert.NotContains(t, out, "%!", "every format has its values")
			assert.NotRegexp(t, regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-4`), out, "no session id")
			assert.NotContains(t, out, "key=", "no reminder's key")

			_, again, _ := command(t, "", "-lang", lang)
			assert.Equal(t, out, again, "same bytes every time")
		})
	}
}

// A story that goes on by itself when skillbay fails would show nothing.
func TestStoryFailsWithTheMiddleware(t *testing.T) {
	for name, tc := range map[string]struct {
		broken func([]llms.MessageContent) []llms.MessageContent
		want   string
	}{
		"the request holds no reminder": {without(reminderBlock), "turn 2: expected"},
		"the listing names no skill":    {without(listingLine), "turn 2: expected"},
		"a launch brings no body":       {without(regexp.MustCompile(`(?s)Base directory for this skill: .*`)), "turn 2: expected exactly these business tools"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "story.db")
			db, err := openStore(t.Context(), path)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, db.close()) })
			var out bytes.Buffer
			s := setup{store: db, words: english, clock: newStoryClock(), out: &out}
			s.model = deaf{scripted{words: english}, tc.broken}
			err = tellStory(withCustomer(t.Context(), shopper), s, path, nil)
			if assert.Error(t, err, "the story notices") {
				assert.Contains(t, err.Error(), tc.want)
			}
		})
	}
}

// deaf is a model that does not get all that was sent.
type deaf struct {
	llms.Model
	broken func([]llms.MessageContent) []llms.MessageContent
}

func (d deaf) GenerateContent(ctx context.Context, messages []llms.MessageContent, options ...llms.CallOption) (*llms.ContentResponse, error) {
	return d.Model.GenerateContent(ctx, d.broken(messages), options...)
}

// without removes a pattern from all texts and answers of a request.
func without(pattern *regexp.Regexp) func([]llms.MessageContent) []llms.MessageContent {
	return func(messages []llms.MessageContent) []llms.MessageContent {
		out := make([]llms.MessageContent, len(messages))
		for i, m := range messages {
			out[i].Role = m.Role
			for _, part := range m.Parts {
				switch p := part.(type) {
				case llms.TextContent:
					p.Text = pattern.ReplaceAllString(p.Text, "")
					part = p
				case llms.ToolCallResponse:
					p.Content = pattern.ReplaceAllString(p.Content, "")
					part = p
				}
				out[i].Parts = append(out[i].Parts, part)
			}
		}
		return out
	}
}

func TestFlags(t *testing.T) {
	for _, key := range []string{"OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY"} {
		t.Setenv(key, "")
	}
	for name, tc := range map[string]struct {
		args   []string
		status int
		out    string // what the output explains
		errs   string // what the error names
	}{
		"help":                      {[]string{"-h"}, 0, "-provider NAME", ""},
		"long help":                 {[]string{"--help"}, 0, "OPENAI_API_KEY", ""},
		"unknown flag":              {[]string{"-frob"}, 2, "", "frob"},
		"argument":                  {[]string{"tell"}, 2, "", `"tell"`},
		"unknown language":          {[]string{"-lang", "fr"}, 2, "", `"fr"`},
		"model without provider":    {[]string{"-model", "m"}, 2, "", "-provider"},
		"resume alone":              {[]string{"-resume"}, 2, "", "-resume"},
		"unknown provider":          {[]string{"-provider", "frob", "-model", "m"}, 1, "", "ollama"},
		"provider without model":    {[]string{"-provider", "ollama"}, 1, "", "-model"},
		"openai without its key":    {[]string{"-provider", "openai", "-model", "m"}, 1, "", "OPENAI_API_KEY"},
		"anthropic without its key": {[]string{"-chat", "-provider", "anthropic", "-model", "m"}, 1, "", "ANTHROPIC_API_KEY"},
		"anthropic alone":           {[]string{"-provider", "anthropic"}, 1, "", "ANTHROPIC_API_KEY"},
		"googleai without its key":  {[]string{"-provider", "googleai", "-model", "m"}, 1, "", "GOOGLE_API_KEY"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := command(t, "", tc.args...)
			assert.Equal(t, tc.status, status)
			assert.Contains(t, out, tc.out)
			assert.Contains(t, errs, tc.errs)
		})
	}
}

func TestProvidersConnect(t *testing.T) {
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			if p.key != "" {
				t.Setenv(p.key, "test")
			}
			model, oneShot, err := connect(t.Context(), name, "some-model")
			require.NoError(t, err)
			assert.NotNil(t, model)
			assert.Equal(t, name == "ollama", oneShot, "only Ollama's client sends no tools")
		})
	}
}

func TestChatResumes(t *testing.T) {
	db := filepath.Join(t.TempDir(), "chat.db")
	status, out, errs := command(t, english.lines[1]+"\n\n/state\n/frob\n", "-chat", "-db", db)
	require.Zero(t, status, errs)
	assert.Contains(t, out, "Turns so far: 0")
	assert.Contains(t, out, "R-0001", "the refund was paid")
	assert.Contains(t, out, "active     refund-policy")
	assert.Contains(t, out, "commands: /skills", "an unknown command is explained")

	status, out, errs = command(t, english.lines[3]+"\n/invoke goodwill-credit A0990 15.00\n/invoke shipping\n/dismiss nothing\n/quit\nnot read\n", "-chat", "-db", db)
	require.Zero(t, status, errs)
	assert.Contains(t, out, "Turns so far: 1")
	assert.Contains(t, out, english.arrival, "the body loaded by the first process answers in the second")
	assert.Contains(t, out, "⇒ skill_invoked  goodwill-credit")
	assert.Contains(t, out, english.notes.failed, "what cannot be dismissed is reported")
	assert.NotContains(t, out, "⇒ "+skillbay.EventAnnounced, "nothing is announced twice")
	assert.NotContains(t, out, "not read")
}

func TestChatSummarises(t *testing.T) {
	status, out, errs := command(t, strings.Repeat(english.lines[0]+"\n", summaryEvery), "-chat")
	require.Zero(t, status, errs)
	assert.Equal(t, 1, strings.Count(out, "replaces the older rows"))
}

// Ollama's client sends no tools: langchaingo's conversational agent is wrapped
// just as the functions agent is.
func TestOneShotAgent(t *testing.T) {
	db, err := openStore(t.Context(), filepath.Join(t.TempDir(), "chat.db"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.close()) })
	require.NoError(t, db.reset(t.Context(), chatConversation, english.products, english.orders))
	var out bytes.Buffer
	b, err := newBot(t.Context(), setup{
		store: db, words: english, clock: newStoryClock(), out: &out, conversation: chatConversation,
		oneShot: true, model: replies{"Do I need to use a tool? No\nAI: Good morning."},
	})
	require.NoError(t, err)
	for range 2 {
		r, err := b.say(withCustomer(t.Context(), shopper), "Hello there")
		require.NoError(t, err)
		assert.Equal(t, "Good morning.", r.answer)
		assert.Contains(t, r.requests[0], "- refund-policy: ", "the one prompt holds the listing")
	}
	assert.Contains(t, b.transcript.record.requests[0], "Good morning.", "the second prompt holds the past")
}

// replies is a model that always says the same.
type replies struct{ text string }

func (r replies) Call(context.Context, string, ...llms.CallOption) (string, error) {
	return r.text, nil
}

func (r replies) GenerateContent(context.Context, []llms.MessageContent, ...llms.CallOption) (*llms.ContentResponse, error) {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: r.text}}}, nil
}

func TestBothLanguagesHaveTheSameSkills(t *testing.T) {
	var names [2][]string
	for i, w := range []*words{english, chinese} {
		entries, err := fs.ReadDir(skillFiles, w.skillsDir)
		require.NoError(t, err)
		for _, e := range entries {
			names[i] = append(names[i], e.Name())
		}
		for tool := range w.tools {
			assert.NotEmpty(t, w.tools[tool], tool)
		}
	}
	assert.Equal(t, names[0], names[1])
	assert.GreaterOrEqual(t, len(names[0]), 5)
}

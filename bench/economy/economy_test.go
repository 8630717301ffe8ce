package economy

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"

	"github.com/skillbay/skillbay/bench/economy/o200k"
)

// all are the strategies with the options under which they differ.
func all() []struct {
	s Strategy
	o Options
} {
	var list []struct {
		s Strategy
		o Options
	}
	add := func(s Strategy, o Options) {
		list = append(list, struct {
			s Strategy
			o Options
		}{s, o})
	}
	for s := NoSkills; s < Skillbay; s++ {
		add(s, Options{})
	}
	add(Skillbay, Options{})
	add(Skillbay, Options{Discipline: 1})
	add(Skillbay, Options{Discipline: 0.5, Seed: 1, IdleTurns: ReleasedIdle})
	return list
}

// Figures of a README must not depend on the day: State's random session and
// secret, above all, must not show in them.
func TestSameFiguresEveryTime(t *testing.T) {
	for _, c := range all() {
		first, again := Run(Summarised(), c.s, c.o), Run(Summarised(), c.s, c.o)
		assert.True(t, reflect.DeepEqual(first, again), "%s %+v: two runs differ", c.s, c.o)
	}
	assert.NotEqual(t, Run(Drift(), Skillbay, Options{Discipline: 0.5, Seed: 1}), Run(Drift(), Skillbay, Options{Discipline: 0.5, Seed: 2}),
		"the seed draws nothing")
}

// What must hold of every account, whoever made it. Among it that the floor is
// one: no strategy with its skills at hand sends fewer tokens.
func TestAccounts(t *testing.T) {
	for _, w := range Workloads() {
		floor := Run(w, Oracle, Options{})
		for _, c := range all() {
			r := Run(w, c.s, c.o)
			assert.Equal(t, r.Availability() == 1 || c.s == LoadAndLose, r.Tokens >= floor.Tokens,
				"%s, %s: %d tokens, the floor has %d", w.Name, c.s, r.Tokens, floor.Tokens)
			require.Len(t, r.Turns, w.Turns())
			var sum Cost
			for i, turn := range r.Turns {
				sum.add(turn.Cost)
				assert.LessOrEqual(t, turn.Cached, turn.Tokens, "%s, %s, turn %d: more cached than sent", w.Name, c.s, i+1)
				assert.GreaterOrEqual(t, turn.Calls, 1+len(w.turns[i].results), "%s, %s, turn %d: calls are missing", w.Name, c.s, i+1)
				assert.Equal(t, w.turns[i].need, turn.Skill)
			}
			assert.Equal(t, r.Cost, sum, "%s, %s: the turns do not add up", w.Name, c.s)
			assert.LessOrEqual(t, r.Bill(), float64(r.Tokens))
			assert.GreaterOrEqual(t, r.Bill(), CachedPrice*float64(r.Tokens))
		}
	}
}

// Availability tells guidance that is there from guidance that is lost.
func TestAvailability(t *testing.T) {
	for _, w := range Workloads() {
		assert.Zero(t, availability(w, NoSkills), "%s: without skills nothing is available", w.Name)
		for _, s := range []Strategy{Oracle, InPrompt, LoadAndKeep, LoadAndReattach} {
			assert.InDelta(t, 1.0, availability(w, s), 0, "%s, %s", w.Name, s)
		}
		if w.summary {
			assert.Less(t, availability(w, LoadAndLose), 0.9, "%s: who believes a summary loses the body", w.Name)
		}
	}
}

func availability(w *Workload, s Strategy) float64 {
	r := Run(w, s, Options{})
	return r.Availability()
}

// Sizes are what the constants say: the workload is what it claims to be.
func TestWorkloadsAreWhatTheySay(t *testing.T) {
	count := Plain{}.Count
	assert.Equal(t, systemTokens, count(system()))
	for _, w := range append(Workloads(), Letters()) {
		require.Contains(t, w.Title, strings.Fields(w.Title)[0])
		for i, s := range w.skills {
			size := bodyTokens
			if i == 0 && (w.Name == "procedure" || w.Name == "mix") {
				size = longTokens
			}
			assert.InEpsilon(t, size, count(s.body), 0.015, "%s: body of %s", w.Name, s.name)
		}
		for _, turn := range w.turns {
			assert.True(t, within(count(turn.user), w.manner.user), "%s: a message of %d tokens", w.Name, count(turn.user))
			assert.True(t, within(count(turn.answer), w.manner.answer), "%s: an answer of %d tokens", w.Name, count(turn.answer))
			assert.True(t, within(len(turn.results), w.manner.calls), "%s: %d business calls", w.Name, len(turn.results))
			for _, r := range turn.results {
				assert.True(t, within(count(r), w.manner.result), "%s: a result of %d tokens", w.Name, count(r))
			}
		}
	}
	assert.Equal(t, Drift().turns, Summarised().turns, "the summaries are to be the only difference")
	assert.Equal(t, []int{40, 15, 40, 12, 60}, []int{
		Drift().Turns(), Procedure().Turns(), Summarised().Turns(), Catalogue().Turns(), Mix().Turns(),
	})
	topics := func(w *Workload) int {
		used := map[string]bool{}
		for _, turn := range w.turns {
			used[turn.need] = true
		}
		delete(used, "")
		return len(used)
	}
	assert.Equal(t, []int{8, 1, 8, 2, 9}, []int{
		topics(Drift()), topics(Procedure()), topics(Summarised()), topics(Catalogue()), topics(Mix()),
	})
	assert.Len(t, Catalogue().skills, 200)
}

func within(n int, of [2]int) bool { return of[0] <= n && n <= of[1] }

// The model acts on what it is sent and on nothing else.
func TestModelActsOnMessages(t *testing.T) {
	w := Drift()
	first := &w.turns[0]
	body := w.skill(first.need).body
	user := llms.TextParts(llms.ChatMessageTypeHuman, first.user)
	listing := llms.TextParts(llms.ChatMessageTypeSystem, "- "+first.need+": about")
	skillTool := []llms.Tool{{Type: "function", Function: &llms.FunctionDefinition{Name: toolSkill}}}
	ask := func(tools []llms.Tool, messages ...llms.MessageContent) (*model, string) {
		m := &model{w: w, meter: newMeter(Plain{})}
		resp, err := m.GenerateContent(t.Context(), messages, llms.WithTools(tools))
		require.NoError(t, err)
		return m, resp.Choices[0].ToolCalls[0].FunctionCall.Name
	}
	for _, c := range []struct {
		name     string
		tools    []llms.Tool
		messages []llms.MessageContent
		want     string
		had      bool
	}{
		{"listed and missing: loaded", skillTool, []llms.MessageContent{listing, user}, toolSkill, true},
		{"not listed: nothing to call", skillTool, []llms.MessageContent{user}, first.tool, false},
		{"no tool to load with", nil, []llms.MessageContent{listing, user}, first.tool, false},
		{"whole: used", skillTool, []llms.MessageContent{listing, llms.TextParts(llms.ChatMessageTypeSystem, body), user}, first.tool, true},
		{"cut: loaded again", skillTool, []llms.MessageContent{
			listing, llms.TextParts(llms.ChatMessageTypeSystem, body[:len(body)-1]), user,
		}, toolSkill, true},
	} {
		m, tool := ask(c.tools, c.messages...)
		assert.Equal(t, c.want, tool, c.name)
		assert.Equal(t, c.had, m.had, c.name)
	}
	_, err := (&model{w: w, meter: newMeter(Plain{})}).GenerateContent(t.Context(), nil)
	assert.Error(t, err, "no message of the user's")
}

// The prefix ends where the bytes differ, and what comes after is fresh, equal
// or not.
func TestPrefix(t *testing.T) {
	m := newMeter(Plain{})
	for _, c := range []struct {
		name           string
		call           []string
		tokens, cached int
	}{
		{"the first call", []string{"aaaabbbb", "cccc"}, 3, 0},
		{"grown", []string{"aaaabbbb", "cccc", "dddd"}, 4, 3},
		{"changed inside a segment", []string{"aaaaxbbb", "cccc", "dddd"}, 4, 1},
		{"shorter", []string{"aaaaxbbb"}, 2, 2},
		{"half a token is none", []string{"aaxaxbbb"}, 2, 0},
		{"another character", []string{"aaxaé"}, 2, 1},
	} {
		tokens, cached := m.measure(c.call)
		assert.Equal(t, [2]int{c.tokens, c.cached}, [2]int{tokens, cached}, c.name)
	}
	assert.Equal(t, 1, Plain{}.Common("é", "é"), "equal")
	assert.Equal(t, 0, Plain{}.Common("é", "è"), "a character is not cut")
}

// Tools and system prompt come first, wherever the host puts them.
func TestSerialise(t *testing.T) {
	call := newMeter(Plain{}).serialise([]llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeHuman, "hello"),
		llms.TextParts(llms.ChatMessageTypeSystem, "be kind"),
	}, hostTools()[:1])
	require.Len(t, call, 3)
	assert.Contains(t, call[0], `"OrderLookup"`)
	assert.Equal(t, []string{"\n<system>\nbe kind", "\n<human>\nhello"}, call[1:])
}

// unreachable are goals that no strategy can reach in these workloads: a summary
// every ten turns cuts what load and keep would have kept, so that it sends less
// than twice the floor. bound is who shows it. A goal that is reached after all,
// or newly missed, fails.
var unreachable = map[string]struct {
	bound Strategy
	o     Options
	of    Strategy
}{
	"mix: tokens of load and keep's": {bound: Oracle, of: LoadAndKeep},
	// Idle release cannot do better than a model that always releases in time.
	"mix: tokens of load and keep's, nothing released but after 3 idle turns": {
		bound: Skillbay, o: Options{Discipline: 1}, of: LoadAndKeep,
	},
}

// missed are goals that skillbay does not reach: what is left is the model calls
// that load a skill, and the list and tools in every call.
var missed = map[string]bool{"drift: tokens of all in the prompt's": true}

func TestGoals(t *testing.T) {
	goals := Goals()
	seen := map[string]bool{}
	for _, g := range goals {
		assert.False(t, seen[g.Name], "%s: twice", g.Name)
		seen[g.Name] = true
		u, known := unreachable[g.Name]
		if !known {
			assert.Equal(t, !missed[g.Name], g.OK(), "%s: %.2f %s, limit %.0f", g.Name, g.Measured, g.Unit, g.Limit)
			continue
		}
		w := Mix()
		bound := percent(Run(w, u.bound, u.o).Tokens, Run(w, u.of, Options{}).Tokens)
		assert.False(t, g.OK(), "%s: %.2f %s is reached: no longer call it unreachable", g.Name, g.Measured, g.Unit)
		assert.Greater(t, bound, g.Limit, "%s: %s has %.2f: it is within reach", g.Name, u.bound, bound)
	}
	for name := range unreachable {
		assert.True(t, seen[name], "%s: no such goal", name)
	}
}

func TestGoalOK(t *testing.T) {
	for _, c := range []struct {
		g    Goal
		want bool
	}{
		{Goal{Measured: 3, Limit: 3}, true},
		{Goal{Measured: 3.1, Limit: 3}, false},
		{Goal{Measured: 90, Limit: 90, AtLeast: true}, true},
		{Goal{Measured: 89, Limit: 90, AtLeast: true}, false},
	} {
		assert.Equal(t, c.want, c.g.OK(), "%+v", c.g)
	}
}

// A real tokenizer finds the same picture, if not the same figures.
func TestO200kAgrees(t *testing.T) {
	counter, err := o200k.New()
	require.NoError(t, err)
	assert.Equal(t, 2, counter.Count("hello world"))
	assert.Equal(t, 1, counter.Common("hello world", "hello there"))
	ratio := func(c Counter) float64 {
		return percent(Run(Drift(), Skillbay, Options{Discipline: 1, Counter: c}).Tokens, Run(Drift(), LoadAndKeep, Options{Counter: c}).Tokens)
	}
	assert.InDelta(t, ratio(Plain{}), ratio(counter), 3)
}

// The committed plot is what the simulator draws.
//
// To draw it again: go run ./cmd/economy -svg ../docs/economy.svg
func TestPlotIsCurrent(t *testing.T) {
	want := SVG()
	got, err := os.ReadFile(filepath.Join("..", "..", "docs", "economy.svg"))
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got), "docs/economy.svg is not what the simulator draws")
	assert.NotContains(t, string(want), "<script")
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Report(&out, nil))
	for _, w := range Workloads() {
		assert.Contains(t, out.String(), "### "+w.Name+": "+w.Title)
	}
	assert.Contains(t, out.String(), "| drift: availability | 100.0 % | at least 100 % | reached |")
	assert.Contains(t, out.String(), "| drift | 3 |")
	assert.NotContains(t, out.String(), "%!", "a verb without its value")
	assert.ErrorIs(t, Report(failing{}, nil), os.ErrClosed)
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// A run that goes wrong gives no figure.
func TestRunPanicsOnAFault(t *testing.T) {
	w := Procedure()
	w.turns[1].results = make([]string, maxCalls)
	assert.PanicsWithValue(t, "economy: procedure, skillbay: turn 2: the model does not come to an end", func() {
		Run(w, Skillbay, Options{})
	})
}

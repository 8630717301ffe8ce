package skillbay

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

// branch has a skill of every kind that the gate tells apart.
var branch = map[string]string{
	"read":    "---\ndescription: d\nallowed-tools: Read\n---\nRead $ARGUMENTS.\n",
	"write":   "---\ndescription: d\nallowed-tools: Write Read\n---\nWrite $ARGUMENTS.\n",
	"refund":  "---\ndescription: d\nallowed-tools: Read Refund\n---\nRefund $ARGUMENTS.\n",
	"open":    "---\ndescription: d\n---\nAnything.\n",
	"ban":     "---\ndescription: d\ndisallowed-tools: Write mcp__*\n---\nNo writing.\n",
	"none":    "---\ndescription: d\nallowed-tools: []\n---\nNo tool.\n",
	"leader":  "---\ndescription: d\nallowed-tools: Read skill Bash(git:*)\n---\nLaunch others.\n",
	"crm":     "---\ndescription: d\nallowed-tools: mcp__crm__* skill Write\n---\nAsk the CRM.\n",
	"host":    "---\ndescription: d\nallowed-tools: Read\ndisable-model-invocation: true\n---\nBy hand.\n",
	"nopolly": "---\ndescription: d\nallowed-tools: Read Write skill\ndisallowed-tools: mcp__crm__delete\n---\nAlmost all.\n",
}

var branchNames = slices.Sorted(maps.Keys(branch))

func branchBay(t testing.TB, keep, exclusive bool) *bay {
	return newBay(t, Config{
		KeepWindow: keep, Exclusive: exclusive, GuardedTools: []string{"Refund"}, AlwaysAllowed: []string{"Handoff"}, Now: clock(),
	}, branch)
}

// universe are the calls whose verdicts are compared.
func universe() []llms.ToolCall {
	list := []llms.ToolCall{
		toolCall("Read", "{}"), toolCall("Write", "{}"), toolCall("Refund", "{}"), toolCall("Handoff", "{}"),
		toolCall("Unheard", "{}"), toolCall("Bash", "git log"), toolCall("Bash", "git log; rm x"),
		toolCall("mcp__crm__get", "{}"), toolCall("mcp__crm__delete", "{}"),
		toolCall(toolDismiss, `{"skill":"read"}`), skillCall("unknown", ""),
	}
	for _, name := range branchNames {
		list = append(list, skillCall(name, "x"))
	}
	return list
}

// allowed are the calls that the gate lets through, each judged as a batch of
// its own on a copy of the State.
func allowed(t testing.TB, b *bay, s *State) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	text := jsonOf(t, s)
	for _, call := range universe() {
		blocked := b.count(EventBlocked)
		_, err := b.CallTool(WithState(context.Background(), scanned(t, text)), answering("go", call), call, ran)
		require.NoError(t, err)
		out[nameOf(call)+" "+inputOf(call)] = b.count(EventBlocked) == blocked
	}
	return out
}

func (b *bay) count(eventType string) (n int) {
	for _, have := range b.types() {
		if have == eventType {
			n++
		}
	}
	return n
}

// copyOfConversation is one pod's copy: a State and the history beside it.
type copyOfConversation struct {
	t       testing.TB
	bay     *bay
	state   *State
	history []llms.MessageContent
	script  *script
}

func (c *copyOfConversation) again() *copyOfConversation {
	return &copyOfConversation{c.t, c.bay, resumed(c.t, c.state), slices.Clone(c.history), &script{}}
}

func (c *copyOfConversation) ctx() context.Context {
	return WithState(context.Background(), c.state)
}

// model makes a model call; the answer's calls are run.
func (c *copyOfConversation) model(answer *llms.ContentResponse) {
	c.t.Helper()
	c.script.then(answer)
	resp, err := c.bay.WrapModel(c.script).GenerateContent(c.ctx(), c.history, llms.WithTools(userTools))
	require.NoError(c.t, err)
	ai, list := Answer(resp)
	c.history = append(c.history, ai)
	if len(list) == 0 {
		return
	}
	results, err := c.bay.CallTools(c.ctx(), c.history, list, ran)
	require.NoError(c.t, err)
	c.history = append(c.history, results...)
}

// act does one random thing that a host or a model can do.
func (c *copyOfConversation) act(rng *rand.Rand, turns bool) {
	c.t.Helper()
	name := branchNames[rng.IntN(len(branchNames))]
	args := fmt.Sprint("x", rng.IntN(2))
	if len(c.history) == 0 {
		c.history = append(c.history, human("hello"))
	}
	switch n := rng.IntN(20); {
	case n < 6:
		c.model(calls(skillCall(name, args)))
	case n < 8:
		c.model(calls(toolCall("Read", "{}"), skillCall(name, args), skillCall(branchNames[rng.IntN(len(branchNames))], args),
			toolCall(toolDismiss, jsonText(map[string]any{"skill": branchNames[rng.IntN(len(branchNames))]}))))
	case n < 10:
		c.model(calls(toolCall(toolDismiss, jsonText(map[string]any{"skill": name, "reason": args}))))
	case n < 12:
		_ = c.bay.Dismiss(c.ctx(), name, args)
	case n < 14:
		_ = c.bay.Invoke(c.ctx(), name, args)
	case n < 15:
		c.model(say("done"))
	case n < 16: // a summary loses the bodies
		summary, err := c.bay.Reminder(c.ctx(), "summary")
		require.NoError(c.t, err)
		c.history = []llms.MessageContent{summary, c.history[len(c.history)-1]}
		if c.history[1].Role != llms.ChatMessageTypeHuman {
			c.history[1] = human("go on")
		}
		c.model(calls(toolCall("Read", "{}")))
	case n < 17:
		_, err := c.bay.BeforeModel(c.ctx(), c.history)
		require.NoError(c.t, err)
	case n < 18 && turns:
		require.NoError(c.t, c.bay.BeginTurn(c.ctx()))
	case turns:
		c.history = append(c.history, human(fmt.Sprint("next ", rng.IntN(1000))))
		c.model(calls(toolCall("Read", "{}")))
	}
}

// diverged returns three copies of one conversation that went on apart.
func diverged(t testing.TB, seed uint64) (b *bay, copies [3]*copyOfConversation) {
	rng := rand.New(rand.NewPCG(seed, 9))
	b = branchBay(t, seed%2 == 0, seed%10 == 9)
	origin := &copyOfConversation{t: t, bay: b, state: NewState(), script: &script{}}
	for range rng.IntN(8) {
		origin.act(rng, true)
	}
	for i := range copies {
		copies[i] = origin.again()
		for range rng.IntN(6) {
			copies[i].act(rng, seed%3 != 0)
		}
	}
	if seed%5 == 0 { // one copy is the descendant of another
		copies[2] = copies[1].again()
		for range rng.IntN(3) {
			copies[2].act(rng, seed%3 != 0)
		}
	}
	return b, copies
}

// joined is the merge of copies, from left to right; the copies stay as they are.
func joined(t testing.TB, states ...*State) *State {
	t.Helper()
	m := resumed(t, states[0])
	for _, s := range states[1:] {
		before := jsonOf(t, s)
		m.Merge(s)
		require.Equal(t, before, jsonOf(t, s), "other is only read")
	}
	return m
}

// differing are the fields in which two States differ.
func differing(t testing.TB, left, right *State) string {
	t.Helper()
	var b strings.Builder
	fields := func(s *State) (fields map[string]json.RawMessage) {
		require.NoError(t, json.Unmarshal([]byte(bare(t, s)), &fields))
		return fields
	}
	x, y := fields(left), fields(right)
	for _, name := range slices.Sorted(maps.Keys(knownFields)) {
		if string(x[name]) != string(y[name]) {
			fmt.Fprintf(&b, "%s\n  left:  %s\n  right: %s\n", name, x[name], y[name])
		}
	}
	return b.String()
}

const mergeSeeds = 160

func TestRuleMergeLaws(t *testing.T) {
	failed := map[string]int{}
	law := func(name string, seed uint64, left, right *State) {
		t.Helper()
		if bare(t, left) == bare(t, right) {
			return
		}
		if failed[name]++; failed[name] == 1 {
			t.Errorf("%s: seed %d\n%s", name, seed, differing(t, left, right))
		}
	}
	for seed := range uint64(mergeSeeds) {
		_, copies := diverged(t, seed)
		a, b, c := copies[0].state, copies[1].state, copies[2].state
		law("idempotent: a∪a = a", seed, joined(t, a, resumed(t, a)), a)
		law("commutative: a∪b = b∪a", seed, joined(t, a, b), joined(t, b, a))
		law("associative: (a∪b)∪c = a∪(b∪c)", seed, joined(t, joined(t, a, b), c), joined(t, a, joined(t, b, c)))
		law("absorbing: (a∪b)∪b = a∪b", seed, joined(t, a, b, resumed(t, b)), joined(t, a, b))
		law("decoded: a∪b as saved", seed, resumed(t, joined(t, a, b)), joined(t, a, b))
	}
	for name, n := range failed {
		t.Errorf("%s: broken by %d of %d histories", name, n, mergeSeeds)
	}
}

func TestRuleMergeOnlyTightens(t *testing.T) {
	compared, wider := 0, 0
	for seed := range uint64(mergeSeeds / 2) {
		bay, copies := diverged(t, seed)
		a, b := copies[0].state, copies[1].state
		if seed%4 == 1 { // what was merged before is merged again
			a = joined(t, a, copies[2].state)
		}
		if a.Turn() != b.Turn() {
			continue
		}
		compared++
		mayA, mayB := allowed(t, bay, a), allowed(t, bay, b)
		for name, m := range map[string]*State{"a∪b": joined(t, a, b), "b∪a": joined(t, b, a)} {
			for call, may := range allowed(t, bay, m) {
				if may && !(mayA[call] && mayB[call]) {
					if wider++; wider < 4 {
						t.Errorf("seed %d: %s allows %s; a: %v, b: %v\na: %s\nb: %s\nm: %s",
							seed, name, call, mayA[call], mayB[call], bare(t, a), bare(t, b), bare(t, m))
					}
				}
			}
		}
	}
	assert.Greater(t, compared, mergeSeeds/10, "enough histories at equal turns")
	assert.Zero(t, wider, "calls that a merge allows and a copy does not, in %d pairs", compared)
}

func TestMerge(t *testing.T) {
	pair := func(t *testing.T) (b *bay, x, y *State) {
		b = branchBay(t, false, false)
		origin := NewState()
		beginTurn(t, b.Middleware, origin)
		return b, resumed(t, origin), resumed(t, origin)
	}
	t.Run("launches are united and each is a limit", func(t *testing.T) {
		b, x, y := pair(t)
		launchIn(t, b.Middleware, x, "refund", "A1")
		launchIn(t, b.Middleware, y, "write", "B2")
		require.True(t, runs(t, b.Middleware, x, "Refund", "{}"))
		x.Merge(y)
		assert.Equal(t, []string{"refund", "write"}, x.Active())
		assert.True(t, runs(t, b.Middleware, x, "Read", "{}"), "in both")
		assert.False(t, runs(t, b.Middleware, x, "Write", "{}"), "in one")
		assert.False(t, runs(t, b.Middleware, x, "Refund", "{}"), "nothing grants")
		assert.Contains(t, launchIn(t, b.Middleware, x, "refund", "A1"), "was not run", "no re-launch to renew a grant")

		beginTurn(t, b.Middleware, x)
		launchIn(t, b.Middleware, x, "refund", "A1")
		assert.True(t, runs(t, b.Middleware, x, "Refund", "{}"), "contested until the turn ends")
	})
	t.Run("the contest is saved", func(t *testing.T) {
		b, x, y := pair(t)
		launchIn(t, b.Middleware, x, "refund", "A1")
		x.Merge(y)
		x = resumed(t, x)
		assert.False(t, runs(t, b.Middleware, x, "Refund", "{}"))
	})
	t.Run("the higher turn wins with its window", func(t *testing.T) {
		b, x, y := pair(t)
		launchIn(t, b.Middleware, x, "read", "")
		beginTurn(t, b.Middleware, y)
		launchIn(t, b.Middleware, y, "refund", "")
		for name, m := range map[string]*State{"x∪y": joined(t, x, y), "y∪x": joined(t, y, x)} {
			assert.Equal(t, 2, m.Turn(), name)
			assert.True(t, runs(t, b.Middleware, m, "Refund", "{}"), "%s: the window of turn 2 still grants", name)
			assert.False(t, runs(t, b.Middleware, m, "Write", "{}"), name)
			assert.Equal(t, []string{"read", "refund"}, m.Active(), name)
		}
	})
	t.Run("answered only if both are", func(t *testing.T) {
		for _, tt := range []struct{ x, y, want bool }{{true, true, true}, {true, false, false}, {false, true, false}} {
			_, x, y := pair(t)
			x.book.Turn.Answered, y.book.Turn.Answered = tt.x, tt.y
			x.Merge(y)
			assert.Equal(t, tt.want, x.book.Turn.Answered)
		}
	})
	t.Run("the greater record of a skill wins, dismissals included", func(t *testing.T) {
		b, x, y := pair(t)
		launchIn(t, b.Middleware, x, "open", "A1")
		y.Merge(x)
		require.NoError(t, b.Dismiss(WithState(context.Background(), x), "open", "done"))
		assert.Empty(t, joined(t, x, y).Active(), "the dismissal is newer")
		assert.Empty(t, joined(t, y, x).Active())
		beginTurn(t, b.Middleware, y)
		launchIn(t, b.Middleware, y, "open", "A2")
		m := joined(t, x, y)
		assert.Equal(t, []string{"open"}, m.Active(), "the launch is newer")
		assert.Equal(t, "A2", m.Invoked()[len(m.Invoked())-1].Args)
	})
	t.Run("announced names are united", func(t *testing.T) {
		_, x, y := pair(t)
		x.do(func() { x.announce([]string{"a", "c"}) })
		y.do(func() { y.announce([]string{"b", "c"}) })
		x.Merge(y)
		assert.Equal(t, []string{"a", "b", "c"}, x.Announced())
	})
	t.Run("waiting launches are united", func(t *testing.T) {
		b, x, y := pair(t)
		require.NoError(t, b.Invoke(WithState(context.Background(), x), "read", ""))
		require.NoError(t, b.Invoke(WithState(context.Background(), y), "write", ""))
		x.Merge(y)
		assert.ElementsMatch(t, []string{"read", "write"}, x.Active())
		beginTurn(t, b.Middleware, x)
		assert.ElementsMatch(t, []string{"read", "write"}, x.Active())
		assert.Equal(t, 2, b.count(EventInvoked))
	})
	t.Run("both secrets verify, at most four are kept", func(t *testing.T) {
		b := branchBay(t, false, false)
		m := NewState()
		ids := []string{m.SessionID()}
		own, err := b.Reminder(WithState(context.Background(), m), "note")
		require.NoError(t, err)
		for i := range 6 {
			other := NewState()
			ids = append(ids, other.SessionID())
			theirs, err := b.Reminder(WithState(context.Background(), other), "note")
			require.NoError(t, err)
			m.Merge(other)
			if i == 0 {
				assert.True(t, m.isReminder(own))
				assert.True(t, m.isReminder(theirs))
			}
		}
		assert.Equal(t, slices.Min(ids), m.SessionID(), "the smaller")
		assert.Len(t, m.book.Secrets, 4)
		assert.Equal(t, jsonOf(t, m), jsonOf(t, resumed(t, m)))
	})
	// A launch of an earlier turn is recorded as long as an anchor needs it: no
	// merge may lose what the next model call would show.
	t.Run("an earlier launch at an anchor stays", func(t *testing.T) {
		b := branchBay(t, false, false)
		c := &copyOfConversation{t: t, bay: b, state: NewState(), script: &script{}, history: []llms.MessageContent{human("one")}}
		c.model(calls(skillCall("open", "x0")))
		c.model(say("done"))
		c.history = []llms.MessageContent{human("two")} // the body is gone
		c.model(calls(skillCall("open", "x1")))
		require.NotEmpty(t, c.state.book.Anchors)
		assert.Empty(t, differing(t, c.state, joined(t, c.state, resumed(t, c.state))))
	})
	// With KeepWindow a launch of turn 1 limits turn 2 as well. A dismissal of
	// turn 1 on another pod ends its grants, but no order of merges may decide
	// whether turn 2 is contested.
	t.Run("a dismissal of an earlier turn", func(t *testing.T) {
		b := branchBay(t, true, false)
		a := NewState()
		beginTurn(t, b.Middleware, a)
		launchIn(t, b.Middleware, a, "read", "")
		x := resumed(t, a)
		beginTurn(t, b.Middleware, x)
		y := resumed(t, x)
		require.NoError(t, b.Dismiss(WithState(context.Background(), a), "read", "done"))
		assert.Empty(t, differing(t, joined(t, joined(t, a, x), y), joined(t, a, joined(t, x, y))))
		m, may := joined(t, joined(t, a, x), y), allowed(t, b, y)
		for call, ok := range allowed(t, b, m) {
			assert.False(t, ok && !may[call], "%s is allowed by the merge, and not by y", call)
		}
	})
	t.Run("a nil other is nothing", func(t *testing.T) {
		_, x, _ := pair(t)
		before := jsonOf(t, x)
		x.Merge(nil)
		x.Merge(x)
		assert.Equal(t, before, jsonOf(t, x))
	})
	// What the merge keeps for each copy is compared with JSON: never in a loop
	// over a loop.
	t.Run("large copies merge in no time", func(t *testing.T) {
		files, names := many(250, "", "Do it.")
		b := newBay(t, Config{}, files)
		x := NewState()
		for chunk := range slices.Chunk(names, 50) {
			beginTurn(t, b.Middleware, x)
			for _, name := range chunk {
				launchIn(t, b.Middleware, x, name, "x")
			}
		}
		y := resumed(t, x)
		launchIn(t, b.Middleware, y, names[0], "y")
		start := time.Now()
		x.Merge(y)
		assert.Less(t, time.Since(start), time.Second)
	})
}

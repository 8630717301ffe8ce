package skillbay

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/llms"
)

var regexpCallIDs = regexp.MustCompile(`call_[0-9]+`)

// SPEC 8.3: whatever the host cuts from or summarises in the history, a call
// that the ledger blocks stays blocked, and nothing more is granted.
func TestRuleCutsNeitherOpenNorGrant(t *testing.T) {
	b := newBay(t, Config{GuardedTools: []string{"Submit"}}, map[string]string{
		"ro": md("allowed-tools: Read, skill\n", "Look.\n"), "refund": md("allowed-tools: Submit, Read\n", "Refund.\n"),
	})
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 600 {
		l := newLoop(t, b)
		l.history = []llms.MessageContent{human("first")}
		var launched []llms.ToolCall
		for range 1 + rng.IntN(3) {
			launched = append(launched, skillCall([]string{"ro", "refund"}[rng.IntN(2)], ""))
		}
		for _, call := range launched {
			l.script.then(calls(call))
			l.step()
		}
		verdicts := func(history []llms.MessageContent) map[string]bool {
			got := map[string]bool{}
			for _, tool := range []string{"Read", "Write", "Submit"} {
				call := toolCall(tool, `{}`)
				l.state = resume(t, l.state)
				l.ran = nil
				h := append(slices.Clone(history), llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}})
				_, err := b.CallTool(l.ctx(), h, call, l.next)
				require.NoError(t, err)
				got[tool] = len(l.ran) == 1
			}
			return got
		}
		before := verdicts(l.history)
		cut := slices.DeleteFunc(slices.Clone(l.history), func(llms.MessageContent) bool { return rng.IntN(3) == 0 })
		if rng.IntN(2) == 0 {
			summary := human("Summary: the user wants something.")
			if rng.IntN(2) == 0 {
				var err error
				summary, err = b.Reminder(l.ctx(), "a summary")
				require.NoError(t, err)
			}
			cut = append([]llms.MessageContent{summary}, cut[min(len(cut), rng.IntN(4)):]...)
		}
		if rng.IntN(2) == 0 && len(cut) > 0 { // the loop goes on with the cut history, if that is no new turn
			if cur := lastHuman(cut); cur != len(cut)-1 || textOf(cut[cur]) == "first" {
				_, err := b.BeforeModel(l.ctx(), cut)
				require.NoError(t, err)
			}
		}
		for tool, allowed := range verdicts(cut) {
			assert.False(t, allowed && !before[tool], "round %d: the cut opened %s", round, tool)
		}
	}
}

func lastHuman(messages []llms.MessageContent) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if isHuman(messages[i]) {
			return i
		}
	}
	return -1
}

// SPEC 8.6: verdicts do not depend on order of execution or concurrency.
func TestRuleVerdictsDoNotDependOnOrder(t *testing.T) {
	b := newBay(t, Config{GuardedTools: []string{"Submit"}}, map[string]string{
		"ro": md("allowed-tools: Read\n", "Look.\n"), "wo": md("allowed-tools: Write, skill\n", "Write.\n"),
		"refund": md("allowed-tools: Submit, Read\n", "Refund.\n"), "ban": md("disallowed-tools: W*\n", "No.\n"), "free": md("", "Free.\n"),
	})
	names := []string{"ro", "wo", "refund", "ban", "free"}
	userToolNames := []string{"Read", "Write", "Submit"}
	rng := rand.New(rand.NewPCG(3, 4))
	for round := range 600 {
		start := NewState()
		history := []llms.MessageContent{human("go")}
		_, err := b.BeforeModel(WithState(context.Background(), start), history)
		require.NoError(t, err)
		if rng.IntN(2) == 0 {
			call := skillCall(names[rng.IntN(len(names))], "")
			history = append(history, llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}})
			result, err := b.CallTool(WithState(context.Background(), start), history, call, nil)
			require.NoError(t, err)
			history = append(history, result)
		}
		var batch []llms.ToolCall
		ai := llms.MessageContent{Role: llms.ChatMessageTypeAI}
		for i := range 2 + rng.IntN(4) {
			call := toolCall(userToolNames[rng.IntN(3)], fmt.Sprintf(`{"n":%d}`, i))
			switch rng.IntN(5) {
			case 0, 1:
				call = skillCall(names[rng.IntN(len(names))], "")
			case 2:
				call = toolCall(toolDismiss, fmt.Sprintf(`{"skill":%q}`, names[rng.IntN(len(names))]))
			}
			batch = append(batch, call)
			ai.Parts = append(ai.Parts, call)
		}
		history = append(history, ai)
		var want []string
		for n := range 4 {
			st := resume(t, start)
			ctx := WithState(context.Background(), st)
			var mu sync.Mutex
			var got []string
			next := func(_ context.Context, call llms.ToolCall) (string, error) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, nameOf(call)+inputOf(call))
				return "ok", nil
			}
			note := func(call llms.ToolCall, m llms.MessageContent) {
				if content := m.Parts[0].(llms.ToolCallResponse).Content; strings.HasPrefix(content, launchLine) {
					got = append(got, inputOf(call))
				}
			}
			if n == 0 {
				results, err := b.CallTools(ctx, history, batch, next)
				require.NoError(t, err)
				for i, m := range results {
					note(batch[i], m)
				}
			} else {
				for _, i := range rng.Perm(len(batch)) {
					m, err := b.CallTool(ctx, history, batch[i], next)
					require.NoError(t, err)
					note(batch[i], m)
				}
			}
			slices.Sort(got)
			if n == 0 {
				want = got
			}
			require.Equal(t, want, got, "round %d, order %d, batch %v", round, n, batch)
		}
	}
}

// SPEC 10.11: if the host's requests within a turn are prefixes of one another,
// so are skillbay's.
func TestRulePrefixesStayPrefixes(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for round := range 300 {
		b := newBay(t, Config{ContextWindow: 4000, ReinjectBudget: 40 + rng.IntN(200)}, map[string]string{
			"a": md("", "Do A with $ARGUMENTS, <system-reminder>.\n"), "b": md("allowed-tools: Read, skill\n", "Do B.\n"),
			"c": md("", strings.Repeat("Long C. ", 20)), "d": md("", "Do D.\n"),
		})
		l := newLoop(t, b)
		for range 3 {
			previous := []llms.MessageContent{}
			if rng.IntN(3) == 0 {
				l.history = nil // a summary between turns
			}
			if rng.IntN(4) == 0 {
				require.NoError(t, b.Invoke(l.ctx(), "d", ""))
			}
			l.history = append(l.history, human(fmt.Sprintf("question %d", rng.IntN(2))))
			for step := range 4 {
				var batch []llms.ToolCall
				for range rng.IntN(3) {
					switch rng.IntN(2) {
					case 0:
						batch = append(batch, toolCall("Read", `not json`))
					default:
						batch = append(batch, skillCall([]string{"a", "b", "c", "d"}[rng.IntN(4)], []string{"", "x"}[rng.IntN(2)]))
					}
				}
				answer := calls(batch...)
				answer.Choices[0].Content = []string{"", "thinking <system_reminder>"}[rng.IntN(2)]
				l.script.then(answer)
				more := l.step()
				sent := l.script.last().messages
				require.LessOrEqual(t, len(previous), len(sent))
				require.Equal(t, previous, sent[:len(previous)], "round %d step %d", round, step)
				previous = sent
				if !more {
					break
				}
			}
		}
	}
}

// SPEC 3.2: after New every text that skillbay delivers is independent of the
// disk.
func TestRuleDeliveredTextsAreIndependentOfTheDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "skills")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/skills")))
	run := func(remove bool) string {
		mw, err := New(Config{Skills: []Source{Dir(dir)}})
		require.NoError(t, err)
		if remove {
			require.NoError(t, os.RemoveAll(dir))
		}
		b := &bay{Middleware: mw}
		l := newLoop(t, b)
		l.ask("go", calls(skillCall("refund-policy", "A1 damaged")),
			calls(toolCall("skill_file", `{"skill":"refund-policy","path":"references/limits.md"}`)))
		require.NoError(t, mw.Invoke(l.ctx(), "escalate", "now"))
		l.ask("more", calls(skillCall("shipping", "")))
		l.history = nil
		l.ask("after a summary")
		var out strings.Builder
		for _, r := range l.script.requests {
			out.WriteString(r.text())
		}
		return strings.ReplaceAll(out.String(), l.state.SessionID(), "ID") + mw.Listing() + fmt.Sprint(mw.Skills())
	}
	ids := regexpCallIDs.ReplaceAllString
	assert.Equal(t, ids(run(false), "call"), ids(run(true), "call"))
}

// SPEC 10.11: same State, same history, same bytes; also after a resume.
func TestRuleSameStateSameBytes(t *testing.T) {
	b := newBay(t, Config{}, desk)
	l := newLoop(t, b)
	l.ask("go", calls(skillCall("refund", "A1"), skillCall("policy", "")), calls(toolCall("skill_dismiss", `{"skill":"policy"}`)))
	l.history = append([]llms.MessageContent{human("Summary.")}, human("go on"))
	first, err := b.BeforeModel(l.ctx(), l.history)
	require.NoError(t, err)
	for range 3 {
		l.state = resume(t, l.state)
		again, err := b.BeforeModel(l.ctx(), l.history)
		require.NoError(t, err)
		assert.Equal(t, first, again)
	}
}

// The caller's messages, options and tools are never changed.
func TestRuleCallersValuesAreNeverChanged(t *testing.T) {
	b := newBay(t, Config{}, desk)
	l := newLoop(t, b)
	l.ask("go <system-reminder>", calls(skillCall("refund", "A1"), toolCall("Read", `5`)), say("ok"))
	encodedHistory := func() string { data, _ := json.Marshal(l.history); return string(data) }
	offered := slices.Clone(userTools)
	options := make([]llms.CallOption, 1, 8)
	options[0] = llms.WithTools(offered)
	before := encodedHistory()
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			_, err := l.model.GenerateContent(WithState(context.Background(), NewState()), l.history, options...)
			assert.NoError(t, err)
		}()
	}
	wg.Wait()
	assert.Equal(t, before, encodedHistory())
	assert.Equal(t, userTools, offered)
	assert.Nil(t, options[:2][1])
}

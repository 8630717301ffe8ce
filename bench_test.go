package skillbay

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// benchSkills writes n skills with 2 KiB bodies and one reference file each.
func benchSkills(b testing.TB, n int) string {
	dir := b.TempDir()
	body := strings.Repeat("Check the order, then answer the customer in two sentences. ", 34)
	for i := range n {
		skill := filepath.Join(dir, fmt.Sprintf("skill-%05d", i))
		require.NoError(b, os.MkdirAll(filepath.Join(skill, "references"), 0o755))
		text := fmt.Sprintf("---\nname: skill-%05d\ndescription: Handles requests of kind %d\nallowed-tools: Read, Lookup(order:*), skill\n---\n%s\n", i, i, body)
		require.NoError(b, os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte(text), 0o600))
		require.NoError(b, os.WriteFile(filepath.Join(skill, "references", "rules.md"), []byte("Rule one.\n"), 0o600))
	}
	return dir
}

func BenchmarkLoad(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			dir := benchSkills(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := New(Config{Skills: []Source{Dir(dir)}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// benchConversation is a Middleware with 100 skills and a conversation with
// three active ones whose bodies are visible, and n messages in all.
func benchConversation(b testing.TB, n int) (*Middleware, context.Context, []llms.MessageContent) {
	mw, err := New(Config{Skills: []Source{Dir(benchSkills(b, 100))}})
	require.NoError(b, err)
	ctx := WithState(context.Background(), NewState())
	filler := strings.Repeat("The parcel left the depot on time. ", 12)[:400]
	history := []llms.MessageContent{human("Hello, I have three questions.")}
	_, err = mw.BeforeModel(ctx, history)
	require.NoError(b, err)
	var three []llms.ToolCall
	for i := range 3 {
		three = append(three, skillCall(fmt.Sprintf("skill-%05d", i), ""))
	}
	for i, call := range three {
		history = append(history, llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}})
		result, err := mw.CallTool(ctx, history, call, nil)
		require.NoError(b, err, i)
		history = append(history, result)
	}
	st, _ := StateFrom(ctx)
	require.Len(b, st.Active(), 3)
	for i := len(history); i < n-1; i++ {
		role := llms.ChatMessageTypeHuman
		if i%2 == 1 {
			role = llms.ChatMessageTypeAI
		}
		history = append(history, llms.TextParts(role, filler))
	}
	history = append(history, human("And the last one?"))
	return mw, ctx, history
}

func BenchmarkBeforeModel(b *testing.B) {
	for _, n := range []int{10, 200, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			mw, ctx, history := benchConversation(b, n)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := mw.BeforeModel(ctx, history); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBeforeModelReinjected has three bodies to put back.
func BenchmarkBeforeModelReinjected(b *testing.B) {
	mw, ctx, history := benchConversation(b, 200)
	history = history[7:]
	b.ReportAllocs()
	for b.Loop() {
		if _, err := mw.BeforeModel(ctx, history); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkListingOnly(b *testing.B) {
	for _, skills := range []int{10, 100, 1000} {
		b.Run(strconv.Itoa(skills), func(b *testing.B) {
			mw, err := New(Config{Skills: []Source{Dir(benchSkills(b, skills))}})
			require.NoError(b, err)
			ctx := WithState(context.Background(), NewState())
			history := []llms.MessageContent{human("Hello")}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := mw.BeforeModel(ctx, history); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkGate is the decision on one allowed call, with the State locked as
// the tool wrappers do it, in conversations of so many messages.
func BenchmarkGate(b *testing.B) {
	for _, n := range []int{10, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			mw, ctx, history := benchConversation(b, n)
			st, _ := StateFrom(ctx)
			names := readChapter(history, st.isReminder).names
			call := newBatchCall("", "Read", `{"id":"A1"}`)
			var batch *batch
			st.do(func() { batch, call = st.extra(call, false) })
			b.ReportAllocs()
			for b.Loop() {
				var buf [8]hold
				t := trial{tool: "Read", input: `{"id":"A1"}`}
				st.do(func() { t.witnesses = gather(st, batch, &call, names, mw.catalog, buf[:0]) })
				if t.judge() != nil {
					b.Fatal("blocked")
				}
			}
		})
	}
}

func BenchmarkCallTool(b *testing.B) {
	for _, n := range []int{10, 200, 5000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			mw, ctx, history := benchConversation(b, n)
			if _, err := mw.BeforeModel(ctx, history); err != nil {
				b.Fatal(err)
			}
			call := toolCall("Read", `{"id":"A1"}`)
			history = append(history, llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}})
			next := func(context.Context, llms.ToolCall) (string, error) { return "ok", nil }
			b.ReportAllocs()
			for b.Loop() {
				if _, err := mw.CallTool(ctx, history, call, next); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLaunch launches a skill without arguments, each time in the same new
// conversation: its State is set back by an assignment, since making one
// (random numbers, a secret) is no part of a launch.
func BenchmarkLaunch(b *testing.B) {
	mw, err := New(Config{Skills: []Source{Dir(benchSkills(b, 1))}})
	require.NoError(b, err)
	f, st := mw.catalog.skills[0], NewState()
	fresh := st.book
	b.ReportAllocs()
	for b.Loop() {
		st.book, st.batch = fresh, nil
		c := &ticket{state: st, within: true}
		if _, err := mw.launch(context.Background(), c, launchOrder{f: f, seq: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

// quick is a model without cost: it calls Read, then says that it is done. Like
// every client it applies its options.
type quick struct{ call, done *llms.ContentResponse }

func (q *quick) GenerateContent(
	_ context.Context, messages []llms.MessageContent, options ...llms.CallOption,
) (*llms.ContentResponse, error) {
	var o llms.CallOptions
	for _, option := range options {
		option(&o)
	}
	if messages[len(messages)-1].Role == llms.ChatMessageTypeTool {
		return q.done, nil
	}
	return q.call, nil
}

func (q *quick) Call(context.Context, string, ...llms.CallOption) (string, error) { return "", nil }

// still is a tool without cost.
type still struct{}

func (still) Name() string                                 { return "Read" }
func (still) Description() string                          { return "Reads an order." }
func (still) Call(context.Context, string) (string, error) { return "It was sent on Monday.", nil }

// BenchmarkExecutorTurn is a run of langchaingo's functions agent with one tool
// call: by its own executor, with 100 skills of which none is launched, and
// with one that an earlier turn launched, so that its body is put back.
func BenchmarkExecutorTurn(b *testing.B) {
	model := &quick{calls(toolCall("Read", `{"__arg1":"A1"}`)), say("It is on its way.")}
	bare := agents.NewExecutor(agents.NewOpenAIFunctionsAgent(model, []tools.Tool{still{}}))
	input := map[string]any{"input": "Where is my parcel?"}
	run := func(b *testing.B, ctx context.Context, exec chains.Chain) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := exec.Call(ctx, input); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("bare", func(b *testing.B) { run(b, context.Background(), bare) })
	mw, err := New(Config{Skills: []Source{Dir(benchSkills(b, 100))}})
	require.NoError(b, err)
	exec, err := mw.WrapExecutor(bare)
	require.NoError(b, err)
	ctx := WithState(context.Background(), NewState())
	b.Run("skillbay", func(b *testing.B) { run(b, ctx, exec) })
	require.NoError(b, mw.Invoke(ctx, "skill-00001", ""))
	_, err = exec.Call(ctx, input)
	require.NoError(b, err)
	b.Run("launched", func(b *testing.B) { run(b, ctx, exec) })
}

func BenchmarkState(b *testing.B) {
	_, ctx, _ := benchConversation(b, 10)
	st, _ := StateFrom(ctx)
	data, err := json.Marshal(st)
	require.NoError(b, err)
	b.Run("marshal", func(b *testing.B) {
		b.ReportAllocs()
		b.ReportMetric(float64(len(data)), "bytes")
		for b.Loop() {
			if _, err := st.MarshalJSON(); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(data)), "json-bytes")
	})
	b.Run("unmarshal", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := new(State).UnmarshalJSON(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkIdleStates reports the memory of an idle conversation that was
// decoded from its JSON.
func BenchmarkIdleStates(b *testing.B) {
	const conversations = 10_000
	_, ctx, _ := benchConversation(b, 10)
	st, _ := StateFrom(ctx)
	data, err := json.Marshal(st)
	require.NoError(b, err)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		states := make([]*State, conversations)
		for i := range states {
			states[i] = new(State)
			if err := states[i].UnmarshalJSON(data); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/conversations, "B/state")
		b.ReportMetric(float64(len(data)), "B/json")
		runtime.KeepAlive(states)
	}
}

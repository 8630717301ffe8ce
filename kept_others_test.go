package skillbay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/tools"
)

// What another machine does meanwhile, and what a Store that fails makes of it.

// Two pods meet a new conversation: one of them announces.
func TestStoreAnnouncesOnceForTwo(t *testing.T) {
	store := &shelf{}
	one, two := newPod(t, Config{Store: store}, desk), newPod(t, Config{Store: &store.MemoryStore}, desk)
	first := true
	store.onSave = func(_ context.Context, _ string, _ Record, save func() error) error {
		if first {
			first = false
			_, err := two.run(conversation("4711"), "Hello")
			require.NoError(t, err)
		}
		return save()
	}
	_, err := one.run(conversation("4711"), "Hello")
	require.NoError(t, err)
	assert.Len(t, append(one.types(), two.types()...), 1, "%v %v", one.events, two.events)
}

// Two inputs at once, and one pod dies: its retry goes on under its limit.
func TestStoreRetryOfAJointTurn(t *testing.T) {
	op := func(in string) string { return encoded(opener{Kind: byRun, Len: len(in), Hash: hashOf(in)}) }
	mine, theirs := "Refund A1", ""
	for i := 0; ; i++ {
		if theirs = fmt.Sprintf("Hello %03d", i)[:9]; op(theirs) < op(mine) {
			break
		}
	}
	for name, with := range map[string]bool{"alone": false, "two at once": true} {
		t.Run(name, func(t *testing.T) {
			store := &shelf{}
			cfg := Config{Store: store}
			a, b, c := newPod(t, cfg, desk), newPod(t, cfg, desk), newPod(t, cfg, desk)
			first := with
			store.onSave = func(_ context.Context, _ string, _ Record, save func() error) error {
				if first {
					first = false
					_, err := b.run(conversation("4711"), theirs)
					require.NoError(t, err)
				}
				return save()
			}
			a.script.steps = []func(request) *llms.ContentResponse{
				func(request) *llms.ContentResponse { return calls(skillCall("refund", "A1")) },
				func(request) *llms.ContentResponse { panic("the pod dies") },
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = a.run(conversation("4711"), mine)
			}()
			st := store.state(t, "4711")
			require.Equal(t, 1, st.Turn())
			require.False(t, st.book.Turn.Answered)
			_, err := c.run(conversation("4711"), mine, calls(toolCall("Write", "x")))
			require.NoError(t, err)
			assert.Empty(t, c.tool.ran, "the same input goes on with its turn, limits included; turn %d", store.state(t, "4711").Turn())
		})
	}
}

// A launch of the host's joins one turn, whatever another pod saves meanwhile.
func TestStoreWaitingLaunchJoinsOnce(t *testing.T) {
	store := &shelf{}
	cfg := Config{Store: store}
	p, other := newPod(t, cfg, desk), newBay(t, cfg, desk)
	// names known already, so that a run's first save is its end
	_, err := p.run(conversation("4711"), "Hello")
	require.NoError(t, err)
	require.NoError(t, p.Invoke(conversation("4711"), "refund", "A1")) // click
	p.script.steps = []func(request) *llms.ContentResponse{
		func(r request) *llms.ContentResponse {
			require.Contains(t, r.text(), "Refund order A1 carefully")
			require.NoError(t, other.Invoke(conversation("4711"), "policy", "")) // another click while the model writes
			return say("refunded")
		},
	}
	_, err = p.run(conversation("4711"), "Go")
	require.NoError(t, err)
	st := store.state(t, "4711")
	for _, l := range st.book.Pending {
		assert.NotEqual(t, "refund", l.Skill, "it joined turn 2 already")
	}
	p.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse { return calls(toolCall("Write", "x")) },
	}
	_, err = p.run(conversation("4711"), "Thanks")
	require.NoError(t, err)
	assert.Equal(t, []string{"x"}, p.tool.ran, "turn 3 has no limit")
}

// A run that was answered is, although another pod dismissed something.
func TestStoreAnsweredAfterAClick(t *testing.T) {
	store := &shelf{}
	cfg := Config{Store: store, GuardedTools: []string{"Write"}}
	files := map[string]string{
		"pay":  "---\ndescription: Pay\nallowed-tools: Write\n---\nPay.\n",
		"read": "---\ndescription: Read\nallowed-tools: Read\n---\nRead.\n",
		"note": "---\ndescription: Note\n---\nNote.\n",
	}
	p, other := newPod(t, cfg, files), newBay(t, cfg, files)
	p.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse { return calls(skillCall("note", "")) },
		func(request) *llms.ContentResponse {
			require.NoError(t, other.Dismiss(conversation("4711"), "note", "click"))
			return say("ok")
		},
	}
	_, err := p.run(conversation("4711"), "yes")
	require.NoError(t, err)
	assert.True(t, store.state(t, "4711").book.Turn.Answered, "Call returned without error")
	_, err = p.run(conversation("4711"), "yes", calls(skillCall("pay", "")), calls(toolCall("Write", "1 Euro")))
	require.NoError(t, err)
	assert.Equal(t, 2, store.state(t, "4711").Turn())
	assert.Equal(t, []string{"1 Euro"}, p.tool.ran)
}

// Two runs of the same input, both answered.
func TestStoreBothAnswered(t *testing.T) {
	store := &shelf{}
	cfg := Config{Store: store}
	a, b := newPod(t, cfg, desk), newPod(t, cfg, desk)
	var wg sync.WaitGroup
	bMid, aEnd := make(chan struct{}), make(chan struct{})
	b.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse { return calls(skillCall("shipping", "")) },
		func(request) *llms.ContentResponse { close(bMid); <-aEnd; return say("b") },
	}
	a.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := b.run(conversation("4711"), "yes")
				assert.NoError(t, err)
			}()
			<-bMid
			return say("a")
		},
	}
	_, err := a.run(conversation("4711"), "yes")
	require.NoError(t, err)
	close(aEnd)
	wg.Wait()
	assert.True(t, store.state(t, "4711").book.Turn.Answered, "both answered")
}

// A click on another pod that leaves the turn alone contests nothing.
func TestStoreClickContestsNothing(t *testing.T) {
	store := &shelf{}
	cfg := Config{Store: store, GuardedTools: []string{"Write"}}
	files := map[string]string{
		"pay":  "---\ndescription: Pay\nallowed-tools: Write\n---\nPay.\n",
		"note": "---\ndescription: Note\n---\nNote.\n",
	}
	for name, click := range map[string]bool{"no click": false, "a click": true} {
		t.Run(name, func(t *testing.T) {
			store = &shelf{}
			cfg.Store = store
			p, other := newPod(t, cfg, files), newBay(t, cfg, files)
			p.script.steps = []func(request) *llms.ContentResponse{
				func(request) *llms.ContentResponse {
					if click {
						_, err := other.Reminder(conversation("4711"), "Summary")
						require.NoError(t, err)
						require.NoError(t, other.Invoke(conversation("4711"), "note", ""))
					}
					return calls(skillCall("pay", ""))
				},
				func(request) *llms.ContentResponse { panic("dies") },
			}
			func() {
				defer func() { _ = recover() }()
				_, _ = p.run(conversation("4711"), "Pay")
			}()
			assert.False(t, store.state(t, "4711").book.Turn.Contested)
			_, err := p.run(conversation("4711"), "Pay", calls(toolCall("Write", "1")))
			require.NoError(t, err)
			assert.Equal(t, []string{"1"}, p.tool.ran)
		})
	}
}

// The model learns of no dismissal that is not kept.
func TestStoreDismissalDeliveredAgain(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	ctx, err := b.LoadState(conversation("4711"))
	require.NoError(t, err)
	h := []llms.MessageContent{human("Hello")}
	_, err = b.BeforeModel(ctx, h)
	require.NoError(t, err)
	do := func(call llms.ToolCall) (llms.MessageContent, error) {
		ai := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}
		return b.CallTool(ctx, append(h, ai), call, nil)
	}
	_, err = do(skillCall("shipping", ""))
	require.NoError(t, err)
	down := errors.New("down")
	store.onSave = func(context.Context, string, Record, func() error) error { return down }
	call := toolCall(toolDismiss, `{"skill":"shipping"}`)
	_, err = do(call)
	require.ErrorIs(t, err, down)
	_, err = do(call) // once more, the Store still down
	require.ErrorIs(t, err, down, "the model must not learn of a dismissal that is not kept")
}

// Nor of a launch.
func TestStoreLaunchDeliveredTwiceAtOnce(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	ctx, err := b.LoadState(conversation("4711"))
	require.NoError(t, err)
	h := []llms.MessageContent{human("Hello")}
	_, err = b.BeforeModel(ctx, h)
	require.NoError(t, err)
	call := skillCall("refund", "A1")
	ai := llms.MessageContent{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call}}
	saving, release := make(chan struct{}), make(chan struct{})
	store.onSave = func(_ context.Context, _ string, _ Record, save func() error) error {
		close(saving)
		<-release
		return save()
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := b.CallTool(ctx, append(h, ai), call, nil)
		assert.NoError(t, err)
	}()
	<-saving
	waits, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	_, err = b.CallTool(waits, append([]llms.MessageContent{}, append(h, ai)...), call, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded, "it waits for the save")
	close(release)
	<-done
	m, err := b.CallTool(ctx, append(h, ai), call, nil)
	require.NoError(t, err)
	assert.Contains(t, m.Parts[0].(llms.ToolCallResponse).Content, "Refund order A1 carefully")
}

// Nor does the host.
func TestStoreInvokedAgain(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	ctx, err := b.LoadState(conversation("4711"))
	require.NoError(t, err)
	down := errors.New("down")
	store.onSave = func(context.Context, string, Record, func() error) error { return down }
	require.ErrorIs(t, b.Invoke(ctx, "refund", "A1"), down)
	assert.ErrorIs(t, b.Invoke(ctx, "refund", "A1"), down, "Invoke: nil although nothing is kept")
	require.ErrorIs(t, b.Dismiss(ctx, "refund", "x"), down)
	assert.ErrorIs(t, b.Dismiss(ctx, "refund", "x"), down)
}

// A release of idle skills is kept before the model learns of it.
func TestStoreKeepsIdleReleases(t *testing.T) {
	store := &shelf{}
	onChange := 0
	p := newPod(t, Config{Store: store, IdleTurns: 1, OnChange: func(ctx context.Context, st *State) error {
		if _, ok := StateFrom(ctx); ok {
			onChange++
		}
		return nil
	}}, desk)
	_, err := p.run(conversation("4711"), "one", calls(skillCall("shipping", "")))
	require.NoError(t, err)
	_, err = p.run(conversation("4711"), "two")
	require.NoError(t, err)
	onChange = 0
	p.script.steps = []func(request) *llms.ContentResponse{func(request) *llms.ContentResponse {
		assert.Equal(t, 1, p.count(EventDismissed))
		assert.Len(t, store.state(t, "4711").Dismissed(), 1, "kept before the model learns")
		assert.Equal(t, 1, onChange, "OnChange's ctx has the State")
		panic("the pod dies")
	}}
	func() { defer func() { _ = recover() }(); _, _ = p.run(conversation("4711"), "three") }()
}

// A run under LoadState is saved at its end.
func TestStoreOfALoadedRun(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: store}, desk)
	ctx, err := p.LoadState(conversation("4711"))
	require.NoError(t, err)
	_, err = chains.Run(ctx, p.exec, "yes")
	require.NoError(t, err)
	assert.True(t, store.state(t, "4711").book.Turn.Answered)
}

// What a Store redacted is the same launch.
func TestSealedRedactsAndMerges(t *testing.T) {
	store := &shelf{}
	cfg := Config{Store: Sealed(store, rot13{redacts: true})}
	p, other := newPod(t, cfg, desk), newBay(t, cfg, desk)
	p.script.steps = []func(request) *llms.ContentResponse{
		func(request) *llms.ContentResponse { return calls(skillCall("refund", "A1")) },
		func(request) *llms.ContentResponse {
			require.NoError(t, other.Invoke(conversation("4711"), "policy", ""))
			return calls(skillCall("shipping", ""))
		},
		func(request) *llms.ContentResponse { return say("ok") },
	}
	_, err := p.run(conversation("4711"), "Refund A1")
	require.NoError(t, err)
	st := store.state(t, "4711")
	n := 0
	for _, l := range st.Invoked() {
		if l.Skill == "refund" {
			n++
		}
	}
	assert.Equal(t, 1, n, "launched once: %+v", st.Invoked())
}

// So a save of unknown outcome contests nothing.
func TestSealedRedactsUnknownOutcome(t *testing.T) {
	store := &shelf{}
	p := newPod(t, Config{Store: Sealed(store, rot13{redacts: true}), GuardedTools: []string{"Write"}}, map[string]string{
		"pay": "---\ndescription: Pay\nallowed-tools: Write\n---\nPay $ARGUMENTS.\n",
	})
	lost := errors.New("connection lost")
	store.onSave = func(_ context.Context, _ string, r Record, save func() error) error {
		if err := save(); err != nil || r.Revision != 2 {
			return err
		}
		return lost
	}
	_, err := p.run(conversation("4711"), "Pay", calls(skillCall("pay", "1 Euro")))
	require.ErrorIs(t, err, lost)
	st := store.state(t, "4711")
	assert.False(t, st.book.Turn.Contested)
	assert.Len(t, st.Invoked(), 1)
	_, err = p.run(conversation("4711"), "Pay", calls(toolCall("Write", "1 Euro")))
	require.NoError(t, err)
	assert.Equal(t, []string{"1 Euro"}, p.tool.ran, "granted by the launch that was kept")
}

// What the host just launched is not idle.
func TestIdleTurnsSpareWhatWaits(t *testing.T) {
	b := newBay(t, Config{IdleTurns: 1}, desk)
	l := newLoop(t, b)
	l.ask("one", calls(skillCall("shipping", "")))
	l.ask("two")
	require.NoError(t, b.Invoke(l.ctx(), "shipping", ""))
	l.ask("three")
	assert.NotContains(t, b.types(), EventDismissed, "%+v", l.state.Dismissed())
}

// A SaveError in a log holds no secret, and one of the host's own does not panic.
func TestSaveErrorIsNoLeak(t *testing.T) {
	assert.NotPanics(t, func() {
		_ = (&SaveError{Conversation: "x", State: NewState(), Err: io.EOF}).Retry(context.Background())
	})
	data, _ := json.Marshal(&SaveError{Conversation: "x", State: NewState(), Err: io.EOF})
	assert.NotContains(t, string(data), "secrets")
}

// A conversation whose run is under way is not reached again from inside its
// tools, through another conversation.
func TestStoreRunInsideItself(t *testing.T) {
	store := &shelf{}
	b := newBay(t, Config{Store: store}, desk)
	back := newPod(t, Config{Store: store}, desk)
	read := &toolFunc{name: "Read", call: func(ctx context.Context, _ string) (string, error) {
		ctx = WithConversation(WithConversation(ctx, "4711/desk"), "4711")
		_, err := back.run(ctx, "What did the customer say?")
		require.ErrorIs(t, err, ErrBusy)
		require.ErrorIs(t, back.Invoke(ctx, "refund", ""), ErrBusy)
		_, err = back.LoadState(ctx)
		require.ErrorIs(t, err, ErrBusy)
		return "nothing", nil
	}}
	s := (&script{}).then(calls(toolCall("Read", "x")))
	exec, err := b.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(s, []tools.Tool{read})))
	require.NoError(t, err)
	_, err = chains.Run(conversation("4711"), exec, "Hello")
	require.NoError(t, err)
	assert.Equal(t, 1, store.state(t, "4711").Turn(), "nothing nested touches the parent's turn")
	assert.Empty(t, back.script.requests)
}

// The arguments of a launch that waits cannot be redacted: no model would ever
// read them.
func TestSealedRedactsNothingThatWaits(t *testing.T) {
	p := newPod(t, Config{Store: Sealed(&shelf{}, rot13{redacts: true})}, desk)
	require.ErrorIs(t, p.Invoke(conversation("4711"), "refund", "A1"), errRedacted)
	require.NoError(t, p.Invoke(conversation("4711"), "refund", ""))
}

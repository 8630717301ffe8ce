package skillbay_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"strings"
	"testing/fstest"

	"github.com/tmc/langchaingo/agents"
	"github.com/tmc/langchaingo/chains"
	"github.com/tmc/langchaingo/llms"
	"github.com/tmc/langchaingo/memory"
	"github.com/tmc/langchaingo/schema"
	"github.com/tmc/langchaingo/tools"

	"github.com/skillbay/skillbay"
)

// shop holds the skills of these examples. A service embeds its own, or names
// their directory: skillbay.Dir("skills").
var shop = fstest.MapFS{
	"skills/refunds/SKILL.md": {Data: []byte(`---
description: Refunds and returns of orders
when_to_use: the customer wants money back
allowed-tools: OrderLookup RefundSubmit
arguments: order
---
Look up order $order. A refund needs a delivered order and a reason.
See references/windows.md for the return windows.
`)},
	"skills/refunds/references/windows.md": {Data: []byte("Thirty days; shoes one hundred.\n")},
	"skills/shipping/SKILL.md":             {Data: []byte("---\ndescription: Where a parcel is\n---\nUse OrderLookup.\n")},
	"skills/goodwill/SKILL.md": {Data: []byte(`---
description: Vouchers after a mistake of ours
disable-model-invocation: true
---
Apologise once. The voucher is worth ten euros.
`)},
}

// canned is an offline llms.Model: it gives its answers in order.
type canned struct {
	answers []*llms.ContentResponse
	sent    []llms.MessageContent // of the last request
}

func (c *canned) GenerateContent(
	_ context.Context, messages []llms.MessageContent, _ ...llms.CallOption,
) (*llms.ContentResponse, error) {
	answer := c.answers[0]
	c.answers, c.sent = c.answers[1:], messages
	return answer, nil
}

func (c *canned) Call(ctx context.Context, prompt string, options ...llms.CallOption) (string, error) {
	return llms.GenerateFromSinglePrompt(ctx, c, prompt, options...)
}

// says is a model's answer in words.
func says(text string) *llms.ContentResponse {
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{Content: text}}}
}

// wants is a model's answer that calls one tool.
func wants(id, tool, arguments string) *llms.ContentResponse {
	call := llms.ToolCall{ID: id, Type: "function", FunctionCall: &llms.FunctionCall{Name: tool, Arguments: arguments}}
	return &llms.ContentResponse{Choices: []*llms.ContentChoice{{ToolCalls: []llms.ToolCall{call}}}}
}

// desk is one of the service's own tools: it prints that it ran.
type desk string

var _ tools.Tool = desk("")

func (d desk) Name() string        { return string(d) }
func (d desk) Description() string { return "takes an order number" }
func (d desk) Call(_ context.Context, input string) (string, error) {
	fmt.Println(d, "ran:", input)
	return "delivered, 42.00 paid", nil
}

// printEvent is an audit trail on standard output.
func printEvent(_ context.Context, e skillbay.Event) {
	switch {
	case e.Type == skillbay.EventAnnounced:
		fmt.Println(e.Type, e.Skills)
	case e.Type == skillbay.EventBlocked:
		fmt.Println(e.Type, e.Tool, e.Detail, e.Skills)
	case e.Detail == "":
		fmt.Println(e.Type, e.Skill)
	default:
		fmt.Println(e.Type, e.Skill, e.Detail)
	}
}

func ExampleNew() {
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
		Strict: true, // a refused skill stops the start
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range mw.Skills() {
		fmt.Println(s.Name, s.AllowedTools, s.Files)
	}
	for _, d := range mw.Diagnostics() {
		fmt.Println(d.Severity, d.Path, d.Line, d.Message)
	}
	// Output:
	// goodwill [] []
	// refunds [OrderLookup RefundSubmit] [references/windows.md]
	// shipping [] []
}

func ExampleMiddleware_Listing() {
	mw, err := skillbay.New(skillbay.Config{Skills: []skillbay.Source{skillbay.FS(shop, "skills")}})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(mw.Listing()) // goodwill is the host's alone: disable-model-invocation

	// Output:
	// Skills. When a request falls under one of these, call `skill` with its name before acting, and follow the instructions that it returns. Release one that is no longer needed with `skill_dismiss`.
	// - refunds: Refunds and returns of orders - the customer wants money back
	// - shipping: Where a parcel is
}

// The policy of a service, as code: who sees and launches what, and which tools
// no talk can unlock.
func ExampleConfig() {
	type staff struct{} // set by the service's authentication

	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
		Visible: func(ctx context.Context, s skillbay.Skill) bool {
			return s.Name != "goodwill" || ctx.Value(staff{}) != nil
		},
		Permit: func(_ context.Context, s skillbay.Skill, args string) skillbay.Decision {
			if s.Name == "refunds" && args == "" {
				return skillbay.Deny("Ask the customer for the order number first.")
			}
			return skillbay.Allow
		},
		GuardedTools:  []string{"RefundSubmit"},     // runs only under a launched skill that lists it
		AlwaysAllowed: []string{"handoff_to_human"}, // runs under every limit
		Audit:         printEvent,
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := skillbay.WithState(context.Background(), skillbay.NewState())
	fmt.Println(mw.Invoke(ctx, "goodwill", ""))
	fmt.Println(mw.Invoke(ctx, "refunds", ""))
	fmt.Println(mw.Invoke(ctx, "refunds", "7"))
	// Output:
	// skill_denied goodwill hidden
	// skillbay: invoke "goodwill": unknown skill
	// skill_denied refunds Ask the customer for the order number first.
	// skillbay: invoke "refunds": execution blocked by permission policy: Ask the customer for the order number first.
	// skill_invoked refunds host
	// <nil>
}

func ExampleMiddleware_WrapExecutor() {
	llm := &canned{answers: []*llms.ContentResponse{
		wants("1", "skill", `{"skill":"refunds","args":"7"}`),
		wants("2", "OrderLookup", `{"__arg1":"7"}`),
		wants("3", "AddressChange", `{"__arg1":"7"}`),
		says("It will be with you on Friday."),
	}}
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
		Audit:  printEvent,
	})
	if err != nil {
		log.Fatal(err)
	}

	// Once, for all conversations. Every skill call is one of the iterations.
	existing := agents.NewExecutor(
		agents.NewOpenAIFunctionsAgent(llm, []tools.Tool{desk("OrderLookup"), desk("AddressChange")}),
		agents.WithMaxIterations(16))
	exec, err := mw.WrapExecutor(existing)
	if err != nil {
		log.Fatal(err)
	}

	// Every request: the conversation's own memory and State (here new ones; later
	// requests load both).
	st := skillbay.NewState()
	ctx := skillbay.WithState(context.Background(), st)
	out, err := chains.Run(ctx, exec.WithMemory(memory.NewConversationBuffer()), "Where is my refund?")
	fmt.Println(out, err)
	fmt.Println(st.Active())
	// Output:
	// skills_announced [refunds shipping]
	// skill_invoked refunds
	// OrderLookup ran: 7
	// tool_call_blocked AddressChange not listed [refunds]
	// It will be with you on Friday. <nil>
	// [refunds]
}

func ExampleMiddleware_WrapModel() {
	llm := &canned{answers: []*llms.ContentResponse{
		wants("1", "skill", `{"skill":"refunds","args":"7"}`),
		wants("2", "AddressChange", `{"order":"7"}`),
		says("It will be with you on Friday."),
	}}
	tool := func(name string) llms.Tool {
		return llms.Tool{Type: "function", Function: &llms.FunctionDefinition{
			Name: name, Parameters: map[string]any{"type": "object"},
		}}
	}
	shopTools := []llms.Tool{tool("OrderLookup"), tool("AddressChange")}
	runTool := func(_ context.Context, call llms.ToolCall) (string, error) {
		return call.FunctionCall.Name + " ran", nil
	}
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
		Audit:  printEvent,
	})
	if err != nil {
		log.Fatal(err)
	}

	model := mw.WrapModel(llm) // once, for all conversations
	ctx := skillbay.WithState(context.Background(), skillbay.NewState())
	history := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "Where is my refund?")}
	for {
		resp, err := model.GenerateContent(ctx, history, llms.WithTools(shopTools))
		if err != nil {
			log.Fatal(err)
		}
		ai, calls := skillbay.Answer(resp)
		history = append(history, ai)
		if len(calls) == 0 {
			break
		}
		results, err := mw.CallTools(ctx, history, calls, runTool)
		history = append(history, results...) // one message a call, also beside an error
		if err != nil {
			log.Fatal(err)
		}
	}

	for _, m := range history[3:] {
		for _, part := range m.Parts {
			if answer, ok := part.(llms.ToolCallResponse); ok {
				fmt.Println(answer.Content)
			}
		}
	}
	fmt.Println(history[len(history)-1].Parts[0])
	// Output:
	// skills_announced [refunds shipping]
	// skill_invoked refunds
	// tool_call_blocked AddressChange not listed [refunds]
	// Tool AddressChange was not run: the launched skill refunds allows only: OrderLookup, RefundSubmit. Finish the request with those.
	// It will be with you on Friday.
}

func ExampleCheckAllowedTools() {
	mw, err := skillbay.New(skillbay.Config{Skills: []skillbay.Source{skillbay.FS(shop, "skills")}})
	if err != nil {
		log.Fatal(err)
	}
	call := func(id, name, arguments string) llms.ToolCall {
		return llms.ToolCall{ID: id, FunctionCall: &llms.FunctionCall{Name: name, Arguments: arguments}}
	}
	history := []llms.MessageContent{
		llms.TextParts(llms.ChatMessageTypeHuman, "Where is my refund?"),
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call("1", "skill", `{"skill":"refunds"}`)}},
		{Role: llms.ChatMessageTypeTool, Parts: []llms.ContentPart{llms.ToolCallResponse{
			ToolCallID: "1", Name: "skill", Content: "Launching skill: refunds\n\nLook up the order.",
		}}},
		{Role: llms.ChatMessageTypeAI, Parts: []llms.ContentPart{call("2", "AddressChange", `{}`)}},
	}

	block := skillbay.CheckAllowedTools(history, call("2", "AddressChange", `{}`), mw.Skills())
	fmt.Println(block.Reason, block.Skills, block.Allowed)
	fmt.Println(skillbay.CheckAllowedTools(history, call("2", "OrderLookup", `{}`), mw.Skills()) == nil)
	// Output:
	// not listed [refunds] [OrderLookup RefundSubmit]
	// true
}

func ExampleMiddleware_Invoke() {
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
		Audit:  printEvent,
	})
	if err != nil {
		log.Fatal(err)
	}
	st := skillbay.NewState()
	ctx := skillbay.WithState(context.Background(), st)

	// A click in the back office: the next turn begins with the skill launched.
	if err := mw.Invoke(ctx, "goodwill", ""); err != nil {
		log.Fatal(err)
	}
	fmt.Println(st.Active())

	if err := mw.Dismiss(ctx, "goodwill", "the voucher is out"); err != nil {
		log.Fatal(err)
	}
	fmt.Println(st.Active())

	err = mw.Invoke(ctx, "no-such-skill", "")
	fmt.Println(errors.Is(err, skillbay.ErrUnknownSkill))
	// Output:
	// skill_invoked goodwill host
	// [goodwill]
	// skill_dismissed goodwill the voucher is out
	// []
	// true
}

// A State is a database value: save it with the conversation, scan it with the
// next request, on whatever pod that arrives.
func ExampleState_Scan() {
	mw, err := skillbay.New(skillbay.Config{Skills: []skillbay.Source{skillbay.FS(shop, "skills")}})
	if err != nil {
		log.Fatal(err)
	}
	st := skillbay.NewState()
	if err := mw.Invoke(skillbay.WithState(context.Background(), st), "refunds", "7"); err != nil {
		log.Fatal(err)
	}

	column, err := st.Value() // what database/sql writes
	if err != nil {
		log.Fatal(err)
	}
	resumed := new(skillbay.State)
	if err := resumed.Scan(column); err != nil { // NULL is a new conversation
		log.Fatal(err)
	}
	fmt.Println(resumed.SessionID() == st.SessionID(), resumed.Active())

	err = resumed.Scan("{") // never silently reset
	fmt.Println(errors.Is(err, skillbay.ErrState), resumed.Active())
	// Output:
	// true [refunds]
	// true [refunds]
}

// serve serves one request of the conversation id: its State comes from the
// database and goes back there, also when the run failed.
func serve(ctx context.Context, db *sql.DB, exec *skillbay.Executor, m schema.Memory, id, question string) (string, error) {
	st := new(skillbay.State)
	if err := db.QueryRowContext(ctx, `select state from conversations where id = $1`, id).Scan(st); err != nil {
		return "", err
	}
	out, err := chains.Run(skillbay.WithState(ctx, st), exec.WithMemory(m), question)
	saved := context.WithoutCancel(ctx) // a customer who hangs up does not undo a launch
	_, saveErr := db.ExecContext(saved, `update conversations set state = $2 where id = $1`, id, st)
	return out, errors.Join(err, saveErr)
}

var _ = serve // compiled for README.md; it needs a database to run

// Pods of a service share a Store: any of them goes on with a conversation.
func ExampleWithConversation() {
	store := new(skillbay.MemoryStore) // a service: NewSQLStore
	pod := func(answers ...*llms.ContentResponse) *skillbay.Executor {
		mw, err := skillbay.New(skillbay.Config{
			Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
			Store:  store,
			Audit:  printEvent,
		})
		if err != nil {
			log.Fatal(err)
		}
		exec, err := mw.WrapExecutor(agents.NewExecutor(agents.NewOpenAIFunctionsAgent(
			&canned{answers: answers}, []tools.Tool{desk("OrderLookup"), desk("AddressChange")})))
		if err != nil {
			log.Fatal(err)
		}
		return exec
	}

	// The first pod launches a skill; then its provider fails.
	ctx := context.Background()
	one := pod(wants("1", "skill", `{"skill":"refunds","args":"A123"}`), nil)
	request := skillbay.WithConversation(ctx, "4711")
	_, err := chains.Run(request, one, "I want my money back for A123.")
	fmt.Println("failed:", err != nil)

	// The customer asks again, and another pod answers: with the instructions in
	// front of the question, and under the same limits.
	two := pod(wants("2", "AddressChange", `{"__arg1":"A123"}`), says("It is on its way."))
	out, err := chains.Run(request, two, "I want my money back for A123.")
	fmt.Println(out, err)
	// Output:
	// skills_announced [refunds shipping]
	// skill_invoked refunds
	// failed: true
	// skill_reinjected refunds
	// tool_call_blocked AddressChange not listed [refunds]
	// It is on its way. <nil>
}

// inStore is a service whose conversations a database keeps.
func inStore(ctx context.Context, db *sql.DB, exec *skillbay.Executor, m schema.Memory) {
	store, err := skillbay.NewSQLStore(db, skillbay.PostgreSQL, "") // or skillbay.SQLite, skillbay.MySQL
	if err != nil {
		log.Fatal(err)
	}
	if err := store.Create(ctx); err != nil { // its one table, unless your migrations make it
		log.Fatal(err)
	}
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.Dir("skills")},
		Store:  store,
	})
	if err != nil {
		log.Fatal(mw, err)
	}

	// Every request, on whatever pod it arrives.
	ctx = skillbay.WithConversation(ctx, "4711")
	out, err := chains.Run(ctx, exec.WithMemory(m), "Where is my refund?")
	fmt.Println(out, err)
}

// loopInStore is one request of a loop of one's own.
func loopInStore(ctx context.Context, mw *skillbay.Middleware, loop func(context.Context) error) (err error) {
	ctx, err = mw.LoadState(skillbay.WithConversation(ctx, "4711"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, mw.SaveState(ctx)) }() // err: the named result
	return loop(ctx)
}

var _, _ = inStore, loopInStore // compiled for README.md; they need a database to run

// A summary replaces the history, and with it the instructions of an active
// skill: the next request has them again, in front of the newest user text.
func ExampleMiddleware_Reminder() {
	llm := &canned{answers: []*llms.ContentResponse{
		says("Refunded, it takes some days."), says("Order 7 was refunded."), says("On Friday."),
	}}
	mw, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(shop, "skills")},
		Audit:  printEvent,
	})
	if err != nil {
		log.Fatal(err)
	}
	model, offer := mw.WrapModel(llm), llms.WithTools(mw.ToolDefinitions())
	ctx := skillbay.WithState(context.Background(), skillbay.NewState())
	if err := mw.Invoke(ctx, "refunds", "7"); err != nil {
		log.Fatal(err)
	}
	history := []llms.MessageContent{llms.TextParts(llms.ChatMessageTypeHuman, "I want my money back.")}
	if _, err := model.GenerateContent(ctx, history, offer); err != nil {
		log.Fatal(err)
	}

	// The summariser shares the model, but its call is none of the conversation's.
	text, err := llms.GenerateFromSinglePrompt(skillbay.Bypass(ctx), model, "Summarise this conversation: …")
	if err != nil {
		log.Fatal(err)
	}
	summary, err := mw.Reminder(ctx, text) // no word of the user's: it begins no turn
	if err != nil {
		log.Fatal(err)
	}
	question := llms.TextParts(llms.ChatMessageTypeHuman, "And when?")
	history = []llms.MessageContent{summary, question}
	if _, err := model.GenerateContent(ctx, history, offer); err != nil {
		log.Fatal(err)
	}
	sent := fmt.Sprint(llm.sent[1].Parts[0])
	fmt.Println(strings.Contains(sent, "Look up order 7."), strings.HasSuffix(sent, "And when?"))
	fmt.Println(history[1].Parts[0]) // what the host keeps stays clean

	// Output:
	// skill_invoked refunds host
	// skills_announced [refunds shipping]
	// skill_reinjected refunds
	// true true
	// And when?
}

// Errors carry what was being done, to which skill and file.
func ExampleError() {
	broken := fstest.MapFS{"skills/refunds/SKILL.md": {Data: []byte("---\nallowed-tools: Read\n---\nNo description.\n")}}
	_, err := skillbay.New(skillbay.Config{
		Skills: []skillbay.Source{skillbay.FS(broken, "skills")},
		Strict: true,
	})

	var e *skillbay.Error
	if errors.As(err, &e) && errors.Is(err, skillbay.ErrRefused) {
		fmt.Println(e.Op, e.Skill, e.Path, e.Line)
	}
	// Output:
	// new refunds fs:skills/refunds/SKILL.md 1
}

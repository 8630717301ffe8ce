package skillbay

import (
	"errors"
	"strconv"
	"strings"
)

// Sentinel errors: the failures that a caller may want to tell apart, through
// errors.Is. Others wrap their cause: ctx's error, or one of the host's.
var (
	// ErrNoState is returned by model calls, CallTool and the host's own calls
	// when ctx carries no State: see WithState.
	ErrNoState = errors.New("no State in the context")
	// ErrBusy is returned when a State is already used by a run, and by
	// BeginTurn inside a run or a tool call.
	ErrBusy = errors.New("the State is in use by a run")
	// ErrNoRun is returned by the Plan of a wrapped agent outside an Executor.
	ErrNoRun = errors.New("a wrapped agent plans only inside an Executor of the same Middleware")
	// ErrUnknownSkill is returned by Invoke for a name that no loaded skill
	// bears, or that Visible hides.
	ErrUnknownSkill = errors.New("unknown skill")
	// ErrDenied is returned by Invoke when Permit, Exclusive or a limit of the
	// State refuses the launch.
	ErrDenied = errors.New("execution blocked by permission policy")
	// ErrNotUserInvocable is returned by Invoke for a skill whose header says
	// `user-invocable: false`.
	ErrNotUserInvocable = errors.New("the skill is not user-invocable")
	// ErrNotActive is returned by Dismiss for a skill that is not active.
	ErrNotActive = errors.New("the skill is not active")
	// ErrConfig is returned by New for a Config that contradicts itself.
	ErrConfig = errors.New("invalid configuration")
	// ErrSource is returned by New for a source that cannot be listed.
	ErrSource = errors.New("unusable skill source")
	// ErrRefused is returned by New under Config.Strict when a skill is refused.
	ErrRefused = errors.New("skill refused")
	// ErrTool is returned by every Wrap function for tools whose names collide.
	ErrTool = errors.New("conflicting tool names")
	// ErrAgent is returned by WrapExecutor and WrapAgent for an agent that
	// cannot be rewrapped.
	ErrAgent = errors.New("the agent cannot be rewrapped")
	// ErrLostCalls is returned by a model call whose model called a tool, when
	// the provider client returned no call: langchaingo's Bedrock client drops
	// them while streaming.
	ErrLostCalls = errors.New("the provider client lost the model's tool calls: call it without a streaming function")
	// ErrState is returned when a State cannot be decoded.
	ErrState = errors.New("invalid State")
	// ErrNoConversation is returned by LoadState and SaveState when ctx carries
	// no conversation, and for an id that a Store could not keep: see
	// WithConversation.
	ErrNoConversation = errors.New("no conversation in the context")
	// ErrNoStore is returned for a conversation when Config.Store is nil.
	ErrNoStore = errors.New("no Store in the Config")
	// ErrConflict is returned by a Store's Save when the conversation was saved
	// elsewhere meanwhile, and in a SaveError when that went on for every try.
	ErrConflict = errors.New("the conversation was saved elsewhere meanwhile")
)

// Error is the one error type of this package: what was being done, to which
// skill and file, and why it failed. Empty fields are unknown or meaningless.
type Error struct {
	Op    string // "new", "invoke", "wrap executor", …
	Skill string // the skill's name
	Path  string // the file or directory
	Line  int    // 1-based
	Err   error  // the cause; never nil
}

// Error returns "skillbay: <op> <skill>: <path>:<line>: <cause>", leaving out
// what is unknown.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("skillbay: ")
	b.WriteString(e.Op)
	if e.Skill != "" {
		b.WriteString(" " + strconv.Quote(e.Skill))
	}
	if e.Path != "" {
		b.WriteString(": " + strings.Trim(strconv.Quote(e.Path), `"`)) // untrusted text
		if e.Line > 0 {
			b.WriteString(":" + strconv.Itoa(e.Line))
		}
	}
	b.WriteString(": " + e.Err.Error())
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

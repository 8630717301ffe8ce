// Package skillbay gives langchaingo agents skills that they are held to.
//
// # Overview
//
// A skill is a directory with a SKILL.md: a small YAML header and a body of
// instructions. The model sees a short list of skills, loads one body when it
// needs it by calling the tool `skill`, and can release it again with
// `skill_dismiss`. While a skill with `allowed-tools` holds, no other tool runs.
//
// skillbay is made for business services, where nobody can review a tool call
// while it runs:
//
//   - Skills are deploy artifacts. [New] reads them once, whole, and freezes
//     them: every text of theirs that is delivered later is independent of the
//     disk. A skill that cannot be read as it was meant is refused, with a
//     [Diagnostic], and the others load.
//   - The gate prevents. Every tool call is judged when it runs, whatever the
//     model was told before.
//   - All bookkeeping is in a [State] that is saved with the conversation. A
//     [Middleware] is immutable and keeps nothing of a conversation's.
//   - Every decision is an [Event] of the audit trail.
//
// A Middleware is made once and serves any number of conversations at once.
//
// # The two ways in
//
// langchaingo's executor: [Middleware.WrapExecutor] returns a copy of an
// executor whose agent has the skills, for each of langchaingo's three agents;
// other agents go through [Middleware.WrapAgent] first. The result is a
// chains.Chain. It needs the conversation's State in the context, put there by
// [WithState], and the conversation's own memory, given by
// [Executor.WithMemory]: langchaingo keeps memory in the executor, and shared by
// two conversations it shows one customer the other's words.
//
// A loop of one's own over llms.Model: [Middleware.WrapModel] announces,
// re-injects and adds skillbay's tools to every call that offers any;
// [Middleware.CallTools] judges and runs the tool calls of an answer, which
// [Answer] takes apart. Loops that call their model by themselves use
// [Middleware.BeforeModel] and [Middleware.ToolDefinitions] instead, and those
// that dispatch langchaingo tools use [Middleware.WrapTools].
//
// On both ways the caller's messages, options and tools are never changed. What
// is sent is a copy: the list of skills, and bodies that the messages no longer
// show, stand in one <system-reminder> block in front of the text of an existing
// human message.
//
// # The gate
//
// One pure function judges every call; tools, CallTool and [CheckAllowedTools]
// all ask it.
//
//  1. Two witnesses say which skills are launched: the State, and answers to
//     `skill` calls in the history of the current turn. Each that holds a skill
//     with `allowed-tools` is a limit, the union of its skills' lists. A call
//     must satisfy every limit, and no launched skill's `disallowed-tools` may
//     name it. A skill without either key adds nothing and lifts nothing.
//  2. Inside a limit `skill` itself is blocked, unless listed by its exact name
//     or called for a skill that is launched already.
//  3. `skill_dismiss`, `skill_file` and Config.AlwaysAllowed always run.
//  4. A tool of Config.GuardedTools runs only if a launch of this turn grants
//     it: one that the State records, that is not dismissed, and whose skill
//     lists the tool by its exact name. What only the history shows grants
//     nothing.
//  5. The calls of one model answer are judged together. A launch among them
//     restricts its siblings and grants them nothing, so that a verdict depends
//     neither on their order nor on concurrency.
//  6. A call judged inside another tool call must pass its own gate and every
//     limit and ban around the other. Config.AlwaysAllowed is no way out: what
//     such a tool does inside is held as well.
//
// Names compare without regard to case, as langchaingo's executor resolves them.
// An entry `prefix*` matches a prefix; `Name(pattern)` also asks the input to
// match, and `*` there matches no shell control character. That is no sandbox:
// `Bash(git:*)` lets `git -c core.pager='!id' log` through.
//
// Before a launch nothing is restricted but guarded tools, and what a model
// says in words is never judged.
//
// # Turns
//
// A turn goes from one real user message to the next, and a limit lasts until
// the turn ends. Neither a summary, a dismissal, a failed run nor a restart ends
// it. A real user message is every human message but one that
// [Middleware.Reminder] made for this State: mark summaries and nudges with it.
//
// [Executor.Call] begins a turn, unless the current one is unanswered and was
// opened by the same input: a retry goes on, with launches, limits and grants.
// In a loop a call that offers tools begins one when its last message is a real
// user message and there is no turn yet, or it was answered, or the message that
// opened it still stands earlier. If the opener is gone (an edit, a summary without a
// mark), the turn goes on and earlier launches grant nothing more: in doubt
// limits stay and grants go. [Middleware.BeginTurn] begins a turn explicitly;
// loops that write one prompt, and loops that use only CallTool, must call it.
//
// With Config.KeepWindow restricted launches stay as limits in the next turns,
// until they are dismissed: for procedures that ask the user back. With
// Config.IdleTurns a skill that was not launched for so many turns is released.
//
// # State
//
// A [State] holds three ledgers: the skills that were announced, launched and
// dismissed. It is JSON and a database value. Save it after every run, also
// after one that failed, and for long runs in Config.OnChange, which is called
// after each launch and dismissal. It is trusted data: never hand it to a
// client. One State serves one outermost run at a time ([ErrBusy]); copies that
// went on in two places are joined by [State.Merge], and a branched conversation
// begins with [State.Fork].
//
// With Config.Store skillbay does the saving: under [WithConversation] a run
// loads the State, saves it before the model learns of a launch or dismissal and
// at its end, and merges what another pod saved meanwhile. [SQLStore] keeps
// States in SQLite, PostgreSQL, MySQL or MariaDB, [MemoryStore] in this process;
// package skillbaytest holds another [Store] to the contract.
//
// The State is authoritative: within a turn, a history that was cut, summarised
// or forged can tighten what the State says, never loosen it. And it brings back
// what a history lost: the body of an active skill that the messages do not show is
// injected again, framed as loaded earlier. langchaingo's memory saves no tool
// calls, so with an executor that is every turn after a launch. Whole bodies are
// injected within Config.ReinjectBudget; those without room are named.
//
// # Audit
//
// Config.Audit receives an [Event] for what was announced, launched, refused,
// blocked, re-injected and dismissed: after the fact, once, before the model
// learns of it. Calls that are allowed give none. [LogAudit] and [JSONAudit] are
// ready to use.
//
// # Failure lanes
//
//   - What the model can mend is an observation and no error: an unknown skill, a
//     blocked call, a bad input. A tool error would end a langchaingo run and
//     lose its steps.
//   - What an operator must know is an audit event or a log line.
//   - What must stop the caller is an error: one of the Err sentinels inside an
//     [Error], ctx's own, or one of the host's.
//
// Host functions that panic fail closed: Permit denies, Visible hides.
//
// # Deviations from the Agent Skills specification
//
// The format is that of https://agentskills.io/specification, with these
// differences.
//
//   - `allowed-tools` pre-approves tools there; here it restricts. A skill with
//     the key allows those tools and no others, an empty value allows none, and
//     an entry that is no tool's name matches nothing. Entries may be separated
//     by commas as well.
//   - A skill's name is its directory's. The header's `name` is optional, for
//     display, and need not be the same. A directory name that breaks the naming
//     rule loads with a diagnostic, unless it holds a character that could end a
//     path, a line or a tag, or that nobody sees.
//   - A description over 1,024 characters loads with a diagnostic; the length of
//     `compatibility` is not checked.
//   - A header that is not valid YAML is repaired entry by entry where its
//     meaning is beyond doubt, and reported. Anchors, aliases and tags are
//     refused, and so is whatever leaves a restriction in doubt.
//   - Additional keys are read: `when_to_use`, `disallowed-tools`, `arguments`,
//     `argument-hint`, `disable-model-invocation`, `user-invocable`, `shell`,
//     `version`, `model` and `paths`; the last two are carried only. Unknown keys
//     are carried as metadata.
//   - Placeholders in a body are replaced: `$ARGUMENTS`, `$0`, declared names,
//     `${SKILL_DIR}`, `${SESSION_ID}`; and shell blocks run if
//     Config.EnableShellBlocks says so.
//   - Sizes are bounded: SKILL.md 1 MiB, its header 64 KiB; other files 1 MiB
//     each, 8 MiB and 256 files a skill. Files over a limit are listed and cannot
//     be read. A body over half of Config.ContextWindow refuses the skill.
package skillbay

package skillbay

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Texts are the words that skillbay says to the model, all in one place. A
// word in braces is a placeholder, and the `has` tag lists those that a text
// must contain. An empty text is the English one.
//
// Every text is data: values are put in once and never scanned again. New
// refuses a text that lacks a placeholder, that holds a phrase on which
// langchaingo's ReAct parsers end or derail a run (agents/mrkl.go:132-190,
// agents/conversational.go:140-166), or words of skillbay's own protocol.
type Texts struct {
	// ListingIntro stands above the list of skills.
	ListingIntro string
	// ListingMore ends a list that is over its budget.
	ListingMore string `has:"count"`

	// Launched introduces a body that was just launched.
	Launched string
	// LaunchedAgain answers a launch whose body already stands in the conversation.
	LaunchedAgain string
	// Files names a launched skill's other files.
	Files string `has:"files"`
	// FilesMore follows the names when there are more than a launch names.
	FilesMore string `has:"count"`
	// FilesByTool tells how files of a skill without a real directory are read.
	FilesByTool string
	// BadInput answers an input that cannot be read.
	BadInput string `has:"problem,form"`
	// ProblemEmpty and ProblemForm are problems named by BadInput.
	ProblemEmpty, ProblemForm string
	// UnknownSkill answers a name that no visible skill bears.
	UnknownSkill string `has:"skill,skills"`
	// NoSkills stands for an empty list of names.
	NoSkills string
	// NotForModel answers the launch of a skill with disable-model-invocation.
	NotForModel string `has:"skill"`
	// Denied answers a launch that policy refuses.
	Denied string `has:"skill,reason"`
	// ReasonExclusive and ReasonLimit are skillbay's own reasons in Denied.
	ReasonExclusive string `has:"skills"`
	ReasonLimit     string

	// Dismissed answers skill_dismiss.
	Dismissed string `has:"skill"`
	// NotActive answers skill_dismiss for a skill that is not active.
	NotActive string `has:"skill"`
	// HostOnly answers skill_dismiss for a skill that the host launched.
	HostOnly string `has:"skill"`
	// Released replaces, in what is sent, an answer that launched a skill whose
	// instructions no longer apply. One line.
	Released string `has:"skill"`

	// FileNotActive answers skill_file for a skill that is not active.
	FileNotActive string `has:"skill"`
	// UnknownFile answers skill_file for a path that does not exist.
	UnknownFile string `has:"skill,path,files"`
	// FileBinary and FileUnreadable answer for a file that cannot be shown.
	FileBinary     string `has:"path,size"`
	FileUnreadable string `has:"path"`
	// FilePage ends a page of a file that has more.
	FilePage string `has:"path,from,to,size"`
	// FileEnd answers skill_file for an offset at or after a file's end.
	FileEnd string `has:"path,size"`

	// NotListed answers a call that a limit does not contain.
	NotListed string `has:"tool,skills,allowed"`
	// NothingAllowed stands for an empty list of allowed tools.
	NothingAllowed string
	// Banned answers a call of a disallowed tool.
	Banned string `has:"tool,skills"`
	// Guarded answers a guarded tool that no launch grants.
	Guarded string `has:"tool,skills"`
	// Parent answers a nested call that the enclosing tool call may not make.
	Parent string `has:"tool,skills,allowed"`
	// NoState answers a tool call without a State.
	NoState string `has:"tool"`
	// Failed is the tool message of a call that failed with an error.
	Failed string `has:"tool"`

	// Reinjected introduces a body that was loaded earlier.
	Reinjected string `has:"skill"`
	// ReinjectedArguments replaces an appended "ARGUMENTS:" line there.
	ReinjectedArguments string `has:"args"`
	// Invoked introduces a body that the host launched for the current request.
	Invoked string `has:"skill"`
	// Absent names active skills whose bodies are not shown.
	Absent string `has:"skills"`

	// SkillTool, DismissTool and FileTool describe skillbay's tools; the
	// Param texts describe their parameters.
	SkillTool, DismissTool, FileTool string
	// ToolInput ends such a description for agents that write one prompt, whose
	// models see no schema.
	ToolInput                                                              string `has:"form"`
	ParamSkill, ParamArgs, ParamReason, ParamPath, ParamOffset, ParamLimit string
}

// English is what skillbay says unless Config.Texts says otherwise. Do not
// change it: copy it (t := *skillbay.English) to change single texts.
var English = &Texts{
	ListingIntro: "Skills. When a request falls under one of these, call `skill` with its name before acting, " +
		"and follow the instructions that it returns. Release one that is no longer needed with `skill_dismiss`.",
	ListingMore: "({count} more skills are not listed; `skill` launches them by name.)",

	Launched:      "Follow these instructions now, for the current request.",
	LaunchedAgain: "Its instructions already stand above in this conversation and apply now.",
	Files:         "Other files of this skill: {files}",
	FilesMore:     "and {count} more",
	FilesByTool:   "(The files of this skill are read with the `skill_file` tool.)",
	BadInput:      "The input cannot be used: {problem}. Expected form: {form}",
	ProblemEmpty:  "it names no skill",
	ProblemForm:   "it is not of the expected form",
	UnknownSkill:  "Unknown skill: \"{skill}\". Available skills: {skills}.",
	NoSkills:      "none",
	NotForModel:   "Skill {skill} can be invoked by the user only; do not imitate what it might say.",
	Denied:        "Skill {skill} execution blocked by permission policy. {reason}",
	ReasonExclusive: "The skill {skills} is active and only one may be: finish its work, " +
		"or release it with `skill_dismiss` first.",
	ReasonLimit: "Too many skills or arguments in this turn.",

	Dismissed: "Skill {skill} is released; its instructions no longer apply.",
	NotActive: "Skill {skill} is not active; there is nothing to release.",
	HostOnly:  "Skill {skill} was invoked for the user and can be released only by the application.",
	Released:  "(Skill {skill} was launched here; its instructions no longer apply.)",

	FileNotActive:  "Skill {skill} is not active: launch it with `skill` first.",
	UnknownFile:    "Skill {skill} has no file \"{path}\". Closest names: {files}.",
	FileBinary:     "File {path} is binary ({size} bytes) and cannot be shown as text.",
	FileUnreadable: "File {path} is over the size limit and cannot be read here.",
	FileEnd:        "[{path} ends at byte {size}; there is nothing more]",
	FilePage:       "[{path}: bytes {from} to {to} of {size}; more with \"offset\": {to}]",

	NotListed: "Tool {tool} was not run: the launched skill {skills} allows only: {allowed}. " +
		"Finish the request with those.",
	NothingAllowed: "no tools",
	Banned: "Tool {tool} was not run: the launched skill {skills} forbids it. " +
		"Finish the request without it.",
	Guarded: "Tool {tool} was not run: it works only under a launched skill that lists it: {skills}. " +
		"Launch that skill in this turn, then call the tool in a later step.",
	Parent: "Tool {tool} was not run: the tool call around this one is held by {skills} to: {allowed}. " +
		"Finish with those.",
	NoState: "Tool {tool} was not run: this conversation has no skill state.",
	Failed:  "Tool {tool} failed. The application has been told.",

	Reinjected: "The skill {skill} was loaded earlier in this conversation and its instructions still apply. " +
		"This is not a new request: steps already done are not to be redone.",
	ReinjectedArguments: "(When it was loaded, its arguments were: {args})",
	Invoked: "The skill {skill} has been invoked for the request below. Follow its instructions now; " +
		"do not call `skill` for it.",
	Absent: "The instructions of these active skills are not shown here: {skills}. " +
		"Call `skill` again for one that is needed.",

	SkillTool:   "Launches a skill: returns the company's instructions for a kind of request.",
	DismissTool: "Releases a launched skill that is no longer needed.",
	FileTool:    "Reads a file that belongs to a launched skill.",
	ToolInput:   "Input: {form}",
	ParamSkill:  "The skill's name, as listed.",
	ParamArgs:   "Arguments for the skill, as plain text.",
	ParamReason: "Why the skill is no longer needed.",
	ParamPath:   "The file's path, as the launch named it.",
	ParamOffset: "The first byte to return; 0 if absent.",
	ParamLimit:  "The number of bytes to return; at most 65536.",
}

// Chinese is English in Chinese: Config{Texts: skillbay.Chinese}.
var Chinese = &Texts{
	ListingIntro: "可用的技能如下。请求属于某个技能的范围时，先用 `skill` 工具按名称启动它，再按返回的说明办理。" +
		"不再需要的技能用 `skill_dismiss` 释放。",
	ListingMore: "（另有 {count} 个技能未列出，可用 `skill` 按名称启动。）",

	Launched:        "现在请按以下说明处理当前请求。",
	LaunchedAgain:   "它的说明已在上文，现在适用。",
	Files:           "此技能的其他文件：{files}",
	FilesMore:       "另有 {count} 个",
	FilesByTool:     "（此技能的文件用 `skill_file` 工具读取。）",
	BadInput:        "输入无法使用：{problem}。格式应为：{form}",
	ProblemEmpty:    "没有技能名称",
	ProblemForm:     "格式不符",
	UnknownSkill:    "Unknown skill: \"{skill}\". 可用的技能：{skills}。",
	NoSkills:        "无",
	NotForModel:     "技能 {skill} 只能由用户启动；不要模仿它的内容。",
	Denied:          "Skill {skill} execution blocked by permission policy. {reason}",
	ReasonExclusive: "技能 {skills} 正在使用，一次只能用一个：先完成它，或用 `skill_dismiss` 释放它。",
	ReasonLimit:     "本轮的技能或参数过多。",

	Dismissed: "技能 {skill} 已释放，其说明不再适用。",
	NotActive: "技能 {skill} 未在使用，无需释放。",
	HostOnly:  "技能 {skill} 是为用户启动的，只能由应用释放。",
	Released:  "（此处曾启动技能 {skill}；其说明已释放，不再适用。）",

	FileNotActive:  "技能 {skill} 未在使用：请先用 `skill` 启动。",
	UnknownFile:    "技能 {skill} 没有文件 \"{path}\"。相近的名称：{files}。",
	FileBinary:     "文件 {path} 是二进制（{size} 字节），不能以文本显示。",
	FileUnreadable: "文件 {path} 超过大小限制，不能在此读取。",
	FileEnd:        "[{path} 到第 {size} 字节为止，没有更多内容]",
	FilePage:       "[{path}：第 {from} 至 {to} 字节，共 {size}；后续用 \"offset\": {to}]",

	NotListed:      "工具 {tool} 未运行：已启动的技能 {skills} 只允许：{allowed}。请用这些完成请求。",
	NothingAllowed: "无任何工具",
	Banned:         "工具 {tool} 未运行：已启动的技能 {skills} 禁止它。请不用它完成请求。",
	Guarded:        "工具 {tool} 未运行：它只在列出它的技能启动后可用：{skills}。请在本轮启动该技能，再于之后的步骤调用。",
	Parent:         "工具 {tool} 未运行：外层的工具调用受 {skills} 限制，只允许：{allowed}。请用这些完成。",
	NoState:        "工具 {tool} 未运行：此对话没有技能状态。",
	Failed:         "工具 {tool} 失败。应用已收到通知。",

	Reinjected:          "技能 {skill} 在本对话的早些时候已载入，其说明仍然适用。这不是新的请求：已完成的步骤不要重做。",
	ReinjectedArguments: "（载入时的参数是：{args}）",
	Invoked:             "已为下面的请求启动技能 {skill}。现在请按其说明办理；不要再用 `skill` 启动它。",
	Absent:              "以下使用中的技能的说明未在此显示：{skills}。需要时请再次调用 `skill`。",

	SkillTool:   "启动一个技能：返回公司对某类请求的说明。",
	DismissTool: "释放一个不再需要的技能。",
	FileTool:    "读取已启动技能的文件。",
	ToolInput:   "输入：{form}",
	ParamSkill:  "列表中的技能名称。",
	ParamArgs:   "给技能的参数，纯文本。",
	ParamReason: "为何不再需要该技能。",
	ParamPath:   "启动时给出的文件路径。",
	ParamOffset: "返回的第一个字节；缺省为 0。",
	ParamLimit:  "返回的字节数；最多 65536。",
}

// launchLine begins every launch. It is protocol, not one of the Texts: the
// gate's history witness and the visibility check read it.
const launchLine = "Launching skill: "

// derailing are phrases on which langchaingo's ReAct parsers end or derail a
// run; compared without regard to case.
var derailing = []string{
	"final answer:", "final answer :", "the answer is:", "the final answer is:",
	"ai:", "action:", "action input:", "observation:",
}

// complete returns a copy of t with empty texts taken from English, or says
// what is wrong with a text.
func (t *Texts) complete() (*Texts, error) {
	if t == nil {
		t = English
	}
	out := *English
	to, from := reflect.ValueOf(&out).Elem(), reflect.ValueOf(t).Elem()
	for i := range from.NumField() {
		field, text := from.Type().Field(i), from.Field(i).String()
		if text == "" {
			continue
		}
		if tag := field.Tag.Get("has"); tag != "" {
			for name := range strings.SplitSeq(tag, ",") {
				if !strings.Contains(text, "{"+name+"}") {
					return nil, fmt.Errorf("%w: Texts.%s lacks its placeholder {%s}", ErrConfig, field.Name, name)
				}
			}
		}
		lower := strings.ToLower(text)
		for _, phrase := range derailing {
			if strings.Contains(lower, phrase) {
				return nil, fmt.Errorf("%w: Texts.%s contains %q, on which a ReAct parser derails",
					ErrConfig, field.Name, phrase)
			}
		}
		if defuse(text) != text {
			return nil, fmt.Errorf("%w: Texts.%s contains a system-reminder tag", ErrConfig, field.Name)
		}
		if strings.Contains(text, launchLine) {
			return nil, fmt.Errorf("%w: Texts.%s contains %q, which is protocol", ErrConfig, field.Name, launchLine)
		}
		to.Field(i).SetString(text)
	}
	if strings.ContainsAny(out.Released, "\r\n") {
		return nil, fmt.Errorf("%w: Texts.Released is more than one line", ErrConfig)
	}
	return &out, nil
}

// fill puts values into a text's placeholders, given as name, value, name,
// value …, in one pass: a value is never scanned for placeholders.
func fill(text string, pairs ...string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "{")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, after, closed := strings.Cut(rest, "}")
		if i := slices.Index(pairs, name); closed && i >= 0 && i%2 == 0 {
			b.WriteString(pairs[i+1])
			text = after
			continue
		}
		b.WriteByte('{')
		text = rest
	}
}

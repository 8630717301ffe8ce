package skillbay

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// batch is the tool calls of one model answer (SPEC 8.6). Call i has the
// sequence number base+1+i, whatever order things run in, so that verdicts do
// not depend on it: every call is judged on the window up to base.
type batch struct {
	key   string // tells the same answer delivered again; empty: a tool call of its own
	base  int64
	size  int  // numbers reserved for the answer's own calls
	bare  bool // decoded: its calls are not all known
	calls []batchCall
}

// batchCall is one call of a batch.
type batchCall struct {
	seq     int64
	id      string
	tool    string
	sum     [16]byte // of the canonical input
	named   string   // of a skill call: the loaded skill that it names
	target  string   // named, if it is model-invocable and visible
	claimed bool     // it was delivered: a tool wrapper or the host runs it
	done    bool     // it has run
	refused bool     // the gate refused it, and that was audited
}

// savedBatch is what a State keeps of a batch: enough to know it again, and to
// go on with it.
type savedBatch struct {
	Key   string      `json:"key"`
	Base  int64       `json:"base"`
	Size  int         `json:"size"`
	Calls []savedCall `json:"calls,omitempty"`
}

// savedCall is a call of a saved batch.
type savedCall struct {
	Seq   int64  `json:"seq"`
	ID    string `json:"id,omitempty"`
	Tool  string `json:"tool"`
	Sum   []byte `json:"sum"`
	Skill string `json:"skill,omitempty"` // the skill that it may launch
	Ran   bool   `json:"ran,omitempty"`   // it was delivered
	No    bool   `json:"no,omitempty"`    // it was refused
}

func (b *batch) saved() *savedBatch {
	if b == nil {
		return nil
	}
	s := &savedBatch{Key: b.key, Base: b.base, Size: b.size}
	for i := range b.calls {
		c := &b.calls[i]
		if i < maxBatchCalls {
			s.Calls = append(s.Calls, savedCall{c.seq, c.id, c.tool, c.sum[:], c.target, c.claimed, c.refused})
		}
	}
	return s
}

func (s *savedBatch) restored() *batch {
	if s == nil {
		return nil
	}
	b := &batch{key: s.Key, base: s.Base, size: s.Size, bare: true}
	for _, saved := range s.Calls {
		c := batchCall{seq: saved.Seq, id: saved.ID, tool: saved.Tool, named: saved.Skill, target: saved.Skill, claimed: saved.Ran, done: saved.Ran, refused: saved.No}
		copy(c.sum[:], saved.Sum)
		b.calls = append(b.calls, c)
	}
	return b
}

// newBatchCall describes a call; target is resolved by the middleware.
func newBatchCall(id, tool, input string) batchCall {
	sum := sha256.Sum256([]byte(canonicalInput(input)))
	return batchCall{id: identifier(id), tool: identifier(tool), sum: [16]byte(sum[:16])}
}

// fits reports whether c is a call of that tool and input.
func (c *batchCall) fits(other *batchCall) bool {
	return c.sum == other.sum && sameTool(c.tool, other.tool)
}

// same reports whether o is the same call: id, name and input.
func (c batchCall) same(o batchCall) bool { return c.id == o.id && c.fits(&o) }

// waiting reports whether o, of a batch, is the same call and not delivered yet;
// only an id tells that for sure.
func (c batchCall) waiting(o batchCall) bool { return c.id != "" && !o.claimed && c.same(o) }

// batchKey is the number of AI messages, the answer included, and a hash of
// the answer's calls.
func batchKey(ais int, calls []batchCall) string {
	text := make([]byte, 0, 128)
	for i := range calls {
		c := &calls[i]
		text = strconv.AppendQuote(text, c.id)
		text = strconv.AppendQuote(text, c.tool)
		text = append(text, c.sum[:]...)
	}
	sum := sha256.Sum256(text)
	key := append(strconv.AppendInt(text[:0], int64(ais), 10), ':')
	return string(base64.RawStdEncoding.AppendEncode(key, sum[:16]))
}

// open makes calls the State's current batch, or finds that they are it. With
// fresh, a model answered: no call is claimed, and where the host launched or
// dismissed something since, or no calls tell answers apart, it is another
// answer. s.mu is held.
func (s *State) open(ais int, calls []batchCall, fresh bool) *batch {
	key := batchKey(ais, calls)
	same := s.batch != nil && s.batch.key == key && s.batch.size == len(calls)
	if b := s.batch; same && !(fresh && (b.size == 0 || b.end() < s.book.Seq)) {
		if fresh || b.bare {
			extra := slices.DeleteFunc(slices.Clone(b.calls), func(c batchCall) bool { return c.seq <= b.base+int64(b.size) })
			b.calls, b.bare = append(number(calls, b.base), extra...), false
		}
		return b
	}
	s.batch = &batch{key: key, base: s.book.Seq, size: len(calls), calls: number(calls, s.book.Seq)}
	s.book.Seq += int64(len(calls))
	s.changed()
	return s.batch
}

// number returns the calls with their sequence numbers.
func number(calls []batchCall, base int64) []batchCall {
	calls = slices.Clone(calls)
	for i := range calls {
		calls[i].seq = base + 1 + int64(i)
	}
	return calls
}

// place finds the batch of a call that the host runs, and its place there: the
// calls of history's last AI message if it is among them, else the State's
// current batch if it is among those; else it is one more call of either.
// s.mu is held.
func (s *State) place(chap *chapter, calls []batchCall, own batchCall) (*batch, batchCall) {
	// An answer that the State holds stays one batch, however the host spreads
	// it over messages.
	held := s.batch != nil && slices.ContainsFunc(s.batch.calls, own.waiting)
	if !held && slices.ContainsFunc(calls, own.same) {
		s.open(chap.ais(), calls, false)
	}
	if b := s.batch; b != nil && b.key != "" {
		found := -1
		for i := range b.calls {
			if own.same(b.calls[i]) && (found < 0 || b.calls[found].claimed && !b.calls[i].claimed) {
				found = i
			}
		}
		if found >= 0 {
			return b, s.deliver(b, found)
		}
	}
	if ais := chap.ais(); ais > 0 {
		s.open(ais, calls, false)
	}
	return s.extra(own, false)
}

// deliver notes that a call of the batch is being run. s.mu is held.
func (s *State) deliver(b *batch, i int) batchCall {
	if !b.calls[i].claimed {
		b.calls[i].claimed = true
		s.changed()
	}
	return b.calls[i]
}

// claim finds the batch's call that a tool wrapper is asked to run: the first
// unclaimed one of its name and input. One that fits none is one more call of
// the batch; where no model answer made a batch, it is a batch of its own.
// nested calls never take the place of a sibling. s.mu is held.
func (s *State) claim(call batchCall, nested bool) (*batch, batchCall) {
	if b := s.batch; b != nil && !nested {
		for i := range b.calls {
			if c := &b.calls[i]; !c.claimed && c.fits(&call) {
				return b, s.deliver(b, i)
			}
		}
	}
	return s.extra(call, nested)
}

// extra adds one more call to the current batch; a batch of its own is never
// joined, save by calls nested in it. s.mu is held.
func (s *State) extra(call batchCall, nested bool) (*batch, batchCall) {
	if s.batch == nil || s.batch.key == "" && !nested {
		s.batch = &batch{base: s.book.Seq}
	}
	s.book.Seq++
	call.seq, call.claimed = s.book.Seq, true
	s.batch.calls = append(s.batch.calls, call)
	s.changed()
	return s.batch, call
}

// end is the last sequence number of the batch's calls.
func (b *batch) end() int64 {
	end := b.base + int64(b.size)
	if n := len(b.calls); n > 0 {
		end = max(end, b.calls[n-1].seq)
	}
	return end
}

// refuse notes that the gate refused the call of that number, and reports
// whether that is news.
func (s *State) refuse(seq int64) (news bool) {
	news = true
	s.do(func() {
		if s.batch == nil {
			return
		}
		for i := range s.batch.calls {
			if c := &s.batch.calls[i]; c.seq == seq {
				news, c.refused = !c.refused, true
				if news {
					s.changed()
				}
			}
		}
	})
	return news
}

// finish notes that the batch's call of that number has run.
func (s *State) finish(seq int64) {
	s.do(func() {
		if s.batch == nil {
			return
		}
		for i := range s.batch.calls {
			if c := &s.batch.calls[i]; c.seq == seq {
				c.done = true
			}
		}
	})
}

// canonicalInput is the input of a call in the one form that is the same in a
// provider's arguments and in what langchaingo's executor hands to a tool:
// `__arg1` opened (agents/openai_functions_agent.go:276-291), the suffix that
// stop words leave cut (agents/executor.go:138).
func canonicalInput(input string) string {
	input = strings.TrimSpace(input)
	// Without its name or an escape that could spell it there is no __arg1.
	if strings.HasPrefix(input, "{") && (strings.Contains(input, wrapped) || strings.Contains(input, `\u`)) {
		if arg, ok := wrappedInput(input); ok {
			input = arg
		}
	}
	return strings.TrimSpace(strings.TrimSuffix(input, "\nObservation:"))
}

// wrapped is the member in which langchaingo hands a tool's one string over.
const wrapped = "__arg1"

// wrappedInput returns the string that a JSON object holds as that member.
func wrappedInput(input string) (arg string, ok bool) {
	if plainObject(input, func(name, value string) {
		if name == wrapped {
			arg, ok = value, true
		}
	}) {
		return arg, ok
	}
	var object map[string]any
	if json.Unmarshal([]byte(input), &object) != nil {
		return "", false
	}
	arg, ok = object[wrapped].(string)
	return arg, ok
}

// choiceCalls returns the tool calls of all choices of an answer. A call
// without a function is dropped: nothing can run it.
func choiceCalls(resp *llms.ContentResponse) []llms.ToolCall {
	if resp == nil {
		return nil
	}
	var calls []llms.ToolCall
	for _, choice := range resp.Choices {
		if choice == nil {
			continue
		}
		for _, call := range choice.ToolCalls {
			if call.FunctionCall != nil {
				calls = append(calls, call)
			}
		}
		if len(choice.ToolCalls) == 0 && choice.FuncCall != nil {
			calls = append(calls, llms.ToolCall{Type: "function", FunctionCall: choice.FuncCall})
		}
	}
	return calls
}

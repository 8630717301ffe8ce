package skillbay

import (
	"context"
	"strings"

	"github.com/tmc/langchaingo/llms"
)

// The tags around everything that skillbay adds to a message.
const (
	reminderOpen  = "<system-reminder>"
	reminderClose = "</system-reminder>"
	reminderKeyed = `<system-reminder key="`
	reminderKey   = 32 // hex digits
)

// Reminder makes a human message of the host's own that is no real user
// message for this State: a summary, a nudge. The key in it cannot be guessed
// and is not sent to the model. Errors: ErrNoState, those of LoadState and
// SaveState, and ctx's own.
func (mw *Middleware) Reminder(ctx context.Context, text string) (llms.MessageContent, error) {
	if err := ctx.Err(); err != nil {
		return llms.MessageContent{}, err
	}
	ctx, err := mw.loaded(ctx)
	if err != nil {
		return llms.MessageContent{}, err
	}
	st := scopeOf(ctx).state
	if st == nil {
		return llms.MessageContent{}, &Error{Op: "reminder", Err: ErrNoState}
	}
	if err := mw.saveKept(ctx, st); err != nil { // a new State's secret must not be lost
		return llms.MessageContent{}, err
	}
	return llms.TextParts(llms.ChatMessageTypeHuman, reminderKeyed+st.sign(text)+`">`+text+reminderClose), nil
}

// keyedReminder splits a message that has the form of Reminder's.
func keyedReminder(m llms.MessageContent) (key, text string, ok bool) {
	if len(m.Parts) != 1 || !isHuman(m) {
		return "", "", false
	}
	whole, ok := partText(m.Parts[0])
	if !ok {
		return "", "", false
	}
	rest, ok := strings.CutPrefix(whole, reminderKeyed)
	if !ok || len(rest) < reminderKey {
		return "", "", false
	}
	key = rest[:reminderKey]
	text, ok = strings.CutPrefix(rest[reminderKey:], `">`)
	if !ok {
		return "", "", false
	}
	text, ok = strings.CutSuffix(text, reminderClose)
	return key, text, ok
}

// isReminder reports whether the message is this State's own reminder, whole.
func (s *State) isReminder(m llms.MessageContent) (own bool) {
	key, text, ok := keyedReminder(m)
	if !ok {
		return false
	}
	s.do(func() { own = s.verify(key, text) })
	return own
}

// head is a text to put in front of a message.
type head struct {
	at   int // the message's index
	text string
}

// block is one reminder block of the texts for the message at that index, in
// front of the message's own.
func block(heads []head, at int, own string) string {
	size := len(reminderOpen) + len(reminderClose) + len(own) + 3
	for i := range heads {
		if heads[i].at == at {
			size += len(heads[i].text) + 2
		}
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(reminderOpen)
	gap := "\n"
	for i := range heads {
		if heads[i].at == at {
			b.WriteString(gap)
			b.WriteString(heads[i].text)
			gap = "\n\n"
		}
	}
	b.WriteString("\n" + reminderClose + "\n")
	b.WriteString(own)
	return b.String()
}

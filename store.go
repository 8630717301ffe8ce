package skillbay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Store keeps the States of conversations where every machine of the service
// finds them. Its methods may be called from any number of goroutines at once,
// and return soon after ctx ended. Package skillbaytest holds a Store of one's
// own against this contract.
//
// An id is 1 to 255 bytes of UTF-8 without control characters; ids that differ
// in any byte are different conversations. What a Store keeps is trusted data:
// whoever can write it can lift a restriction.
type Store interface {
	// Load returns what was last saved for the conversation; the zero Record,
	// and no error, where nothing was. The caller owns the Record's bytes.
	Load(ctx context.Context, id string) (Record, error)
	// Save keeps r if r.Revision is one more than that of the Record that is
	// kept (0 where none is), in one atomic step. Otherwise it changes nothing
	// and returns an error that wraps ErrConflict. It does not keep r.State's
	// array. After any other error r may or may not have been kept.
	Save(ctx context.Context, id string, r Record) error
}

// Record is what a Store keeps of one conversation.
type Record struct {
	// Revision counts saves: 1 for the first, 0 for a Record that is none. It is
	// not State.Revision, which counts changes.
	Revision int64
	// State is the State's JSON, at most 1 MiB. A Store may reformat it, as a
	// JSON column does.
	State []byte
}

// maxConversationID is the length of an id, in bytes: what a primary key takes
// in every database.
const maxConversationID = 255

// WithConversation returns a context for a conversation that Config.Store keeps.
// Executor.Call under it loads the conversation's State, saves it after each
// launch and dismissal before the model learns of it, and at its end, also when
// the run failed or ctx was cancelled. Where another machine saved meanwhile,
// both States are merged. Invoke and Dismiss load and save likewise. A loop of
// one's own calls LoadState first.
//
// Two agents in one conversation have a State each, by a suffix of the id: say,
// "4711" and "4711/refunds". An id that a tool puts into the context of its call
// starts a conversation of its own there, still held to what the tool call was.
//
// It takes the place of a State in ctx, and WithState that of a conversation. An
// empty id is none.
func WithConversation(ctx context.Context, id string) context.Context {
	sc := scopeOf(ctx)
	if sc.conversation != id || sc.state == nil || id == "" {
		sc.enter(nil)
		sc.conversation = id
	}
	return sc.in(ctx)
}

// LoadState returns a context with the State of ctx's conversation, read from
// Config.Store: for a loop of one's own, once a request. Launches and dismissals
// under it are saved before the model learns of them; SaveState saves the rest.
// A loaded State is a request's: load again for the next one, so that it has
// what other machines saved.
//
// Errors: ErrNoConversation, ErrNoStore, ErrBusy for a conversation inside a tool
// call of whose run this is, ErrState for a Record that is no State, and the
// Store's own.
func (mw *Middleware) LoadState(ctx context.Context) (context.Context, error) {
	if err := ctx.Err(); err != nil {
		return ctx, err
	}
	sc := scopeOf(ctx)
	switch {
	case sc.conversation == "":
		return ctx, &Error{Op: "load state", Err: ErrNoConversation}
	case sc.run != nil || sc.nested(): // its State is at work already
		return ctx, nil
	}
	kept, err := mw.open(ctx, sc)
	if err != nil {
		return ctx, err
	}
	sc.keep(kept)
	return sc.in(ctx), nil
}

// SaveState saves the State that LoadState put into ctx, also when ctx is
// cancelled: call it at the end of every request, also of one that failed. It
// saves nothing when nothing changed.
//
// Errors: ErrNoConversation without LoadState, and *SaveError.
func (mw *Middleware) SaveState(ctx context.Context) error {
	kept := scopeOf(ctx).kept
	if kept == nil {
		return &Error{Op: "save state", Err: ErrNoConversation}
	}
	return kept.save(context.WithoutCancel(ctx))
}

// SaveError is the cause when a State could not be saved: nothing is lost while
// the process holds it.
type SaveError struct {
	Conversation string // its id
	State        *State `json:"-"` // what the Store does not hold
	Err          error  // ErrConflict after the last try, or the Store's own

	kept *kept
}

// Error returns the cause with the conversation.
func (e *SaveError) Error() string {
	return fmt.Sprintf("conversation %q: %v", e.Conversation, e.Err)
}

// Unwrap returns the cause.
func (e *SaveError) Unwrap() error { return e.Err }

// Retry saves the State once more, merged with what the Store holds by now.
func (e *SaveError) Retry(ctx context.Context) error {
	if e.kept == nil {
		return e // none of ours
	}
	return e.kept.save(ctx)
}

// loaded returns ctx with a State: its own, or the one that the Store keeps for
// its conversation.
func (mw *Middleware) loaded(ctx context.Context) (context.Context, error) {
	if sc := scopeOf(ctx); sc.state == nil && sc.conversation != "" {
		return mw.LoadState(ctx)
	}
	return ctx, nil
}

// checkConversation reports what a Store could not keep apart.
func checkConversation(id string) error {
	switch {
	case id == "":
		return ErrNoConversation
	case len(id) > maxConversationID:
		return fmt.Errorf("%w: its id has %d bytes, more than %d", ErrNoConversation, len(id), maxConversationID)
	case !utf8.ValidString(id) || strings.IndexFunc(id, unicode.IsControl) >= 0:
		return fmt.Errorf("%w: its id %q is not UTF-8 without control characters", ErrNoConversation, id)
	}
	return nil
}

// errStorePanic is the error of a Store that panicked.
var errStorePanic = errors.New("the Store panicked")

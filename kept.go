package skillbay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Bounds of a save.
const (
	maxSaves     = 20                     // tries against conflicts
	maxSaveDelay = 100 * time.Millisecond // between two tries, at random
)

// kept is a State that a Store keeps, for as long as one run or request works on
// it. The run goes on with the State it loaded, whatever others save meanwhile:
// its batch and its launches keep their numbers, and it stays held to them. What
// is saved is that State merged with theirs.
//
//	load: state            = record of revision n
//	save: state ⊔ others   → record of revision n+1
//	conflict: others       = record that is kept now, n its revision; save again
type kept struct {
	mw    *Middleware
	id    string
	state *State

	saving   chan struct{} // held by the one save under way; guards all below
	revision int64         // of the Record that others and state are based on
	others   *State        // what others saved; nil: nothing
	shared   bool          // others changed the turn that the State is in
	saved    []byte        // the JSON that the Store keeps
	tried    [][]byte      // the JSON of saves that failed, and may have been carried out all the same
}

// open loads a conversation's State; a new one where none is kept.
func (mw *Middleware) open(ctx context.Context, sc scope) (*kept, error) {
	id := sc.conversation
	fail := func(err error) error { return &Error{Op: "load state", Err: err} }
	if mw.cfg.Store == nil {
		return nil, fail(ErrNoStore)
	}
	if err := checkConversation(id); err != nil {
		return nil, fail(err)
	}
	for f := sc.frame; f != nil; f = f.outer { // reached through another conversation
		if f.conversation == id {
			return nil, fail(fmt.Errorf("conversation %q: %w", id, ErrBusy))
		}
	}
	k := &kept{mw: mw, id: id, state: NewState(), saving: make(chan struct{}, 1)}
	r, err := k.load(ctx)
	if err != nil {
		return nil, fail(fmt.Errorf("conversation %q: %w", id, err))
	}
	if k.revision = r.Revision; r.Revision == 0 {
		return k, nil
	}
	if err := k.state.UnmarshalJSON(r.State); err != nil {
		return nil, fail(fmt.Errorf("conversation %q: %w", id, err))
	}
	k.saved, err = k.state.MarshalJSON()
	return k, err
}

// saveKept saves st in the middle of a run or request, if a Store keeps it.
func (mw *Middleware) saveKept(ctx context.Context, st *State) error {
	if k := scopeOf(ctx).kept; k != nil && k.state == st {
		return k.save(ctx)
	}
	return nil
}

// save lets the Store keep the State, merged with what others saved. Nothing is
// done when nothing changed.
func (k *kept) save(ctx context.Context) error {
	select {
	case k.saving <- struct{}{}:
		defer func() { <-k.saving }()
	case <-ctx.Done():
		return k.failed(ctx.Err())
	}
	var err error
	for try := range maxSaves {
		if try > 0 {
			if err := pause(ctx, try); err != nil {
				return k.failed(err)
			}
			if err := k.catchUp(ctx); err != nil {
				return k.failed(err)
			}
		}
		data, joinErr := k.joined()
		if joinErr != nil {
			return k.failed(joinErr)
		}
		if bytes.Equal(data, k.saved) {
			return nil
		}
		err = k.store(ctx, Record{Revision: k.revision + 1, State: data})
		if err == nil {
			k.revision, k.saved, k.tried = k.revision+1, data, nil
			return nil
		}
		k.tried = append(k.tried, data)
		if !errors.Is(err, ErrConflict) {
			break
		}
	}
	return k.failed(err)
}

func (k *kept) failed(err error) error {
	k.mw.log.Error("skillbay: a State could not be saved", "conversation", k.id, "error", err)
	return &Error{Op: "save state", Err: &SaveError{Conversation: k.id, State: k.state, Err: err, kept: k}}
}

// joined is the JSON to save: the State, and what others saved.
func (k *kept) joined() ([]byte, error) {
	data, err := k.state.MarshalJSON()
	if err != nil || k.others == nil {
		return data, err
	}
	both := new(State)
	if err := both.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	own := both.book.Turn
	both.Merge(k.others)
	if t, theirs := &both.book.Turn, &k.others.book.Turn; own.N == theirs.N {
		// What they hold of this turn may be what this run saved itself.
		t.Answered = t.Answered || own.Answered && own.Opener == theirs.Opener
		t.Contested = t.Contested && (k.shared || own.Contested)
	}
	return both.MarshalJSON()
}

// news are those of the names that no other machine announced meanwhile.
func (k *kept) news(names []string) []string {
	if k == nil {
		return names
	}
	k.saving <- struct{}{}
	defer func() { <-k.saving }()
	if k.others == nil {
		return names
	}
	told := k.others.Announced()
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(told, name) })
}

// catchUp reads what another machine saved. A save of ours that failed, even with
// ErrConflict from a client that sent it twice, may be all that it finds.
func (k *kept) catchUp(ctx context.Context) error {
	r, err := k.load(ctx)
	if err != nil {
		return err
	}
	if r.Revision == 0 { // purged since: begin again
		k.revision, k.saved = 0, nil
		return nil
	}
	others := new(State)
	if err := others.UnmarshalJSON(r.State); err != nil {
		return err
	}
	data, err := others.MarshalJSON()
	if err != nil {
		return err
	}
	base := k.saved
	k.revision, k.saved = r.Revision, data
	ours := slices.ContainsFunc(k.tried, func(tried []byte) bool { return bytes.Equal(data, tried) })
	if !ours {
		k.mw.log.Info("skillbay: another machine saved this conversation meanwhile: merging",
			"conversation", k.id, "turn", k.state.Turn(), "other", others.Turn())
		k.shared = k.shared || !sameTurn(base, others)
		if k.others != nil { // what a stale answer lacks is not lost
			others.Merge(k.others)
		}
		k.others = others
	}
	k.tried = nil
	return nil
}

// sameTurn reports whether others launched and dismissed nothing in the turn that
// the State was in when it was last kept.
func sameTurn(kept []byte, others *State) bool {
	was := new(State)
	if was.UnmarshalJSON(kept) != nil {
		return false
	}
	a, b := &was.book, &others.book
	return encoded(a.Turn) == encoded(b.Turn) && sameWindow(a, b)
}

// load asks the Store, within Config.StoreTimeout; a panic is an error.
func (k *kept) load(ctx context.Context) (r Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, k.mw.cfg.StoreTimeout)
	defer cancel()
	defer caught(&err)
	r, err = k.mw.cfg.Store.Load(ctx, k.id)
	if err == nil && (r.Revision < 0 || r.Revision == 0 && len(r.State) > 0) {
		err = fmt.Errorf("%w: a record of revision %d", ErrState, r.Revision)
	}
	return r, err
}

// store likewise.
func (k *kept) store(ctx context.Context, r Record) (err error) {
	ctx, cancel := context.WithTimeout(ctx, k.mw.cfg.StoreTimeout)
	defer cancel()
	defer caught(&err)
	return k.mw.cfg.Store.Save(ctx, k.id, r)
}

func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("%w: %w", errStorePanic, r)
	default:
		*err = fmt.Errorf("%w: %v", errStorePanic, r)
	}
}

// pause waits before try n, so that two machines do not stay in step.
func pause(ctx context.Context, n int) error {
	t := time.NewTimer(rand.N(min(time.Millisecond<<n, maxSaveDelay))) //nolint:gosec // no secret
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

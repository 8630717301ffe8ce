package skillbay

import "context"

// shown is what Visible said in one turn. It is not saved: after a resume the
// host is asked again.
type shown struct {
	turn    int
	skills  map[string]bool
	listing *listing
}

// shows reports whether the conversation may see the skill: by its own Visible,
// and by the middleware of every enclosing tool call (SPEC 8.9).
func (mw *Middleware) shows(ctx context.Context, st *State, f *frozen) bool {
	return mw.showsHere(ctx, st, f) && scopeOf(ctx).frame.show(ctx, f.Name)
}

// showsHere asks Visible once a turn. The lock is not held while the host
// answers.
func (mw *Middleware) showsHere(ctx context.Context, st *State, f *frozen) bool {
	if mw.cfg.Visible == nil {
		return true
	}
	var answer, known bool
	var turn int
	st.do(func() {
		st.shown.renew(st.book.Turn.N)
		turn = st.shown.turn
		answer, known = st.shown.skills[f.Name]
	})
	if known {
		return answer
	}
	answer = mw.visible(ctx, f)
	st.do(func() {
		if st.shown.turn != turn {
			return
		}
		if first, raced := st.shown.skills[f.Name]; raced {
			answer = first
			return
		}
		st.shown.skills[f.Name] = answer
	})
	return answer
}

func (s *shown) renew(turn int) {
	if s.turn != turn || s.skills == nil {
		*s = shown{turn: turn, skills: map[string]bool{}}
	}
}

// listingFor is the listing of the skills that the conversation may see.
func (mw *Middleware) listingFor(ctx context.Context, st *State) *listing {
	if mw.showsAll(ctx) {
		return mw.listing
	}
	var l *listing
	st.do(func() {
		st.shown.renew(st.book.Turn.N)
		l = st.shown.listing
	})
	if l != nil {
		return l
	}
	l = mw.listingOf(mw.shownSkills(ctx, st))
	st.do(func() { st.shown.listing = l })
	return l
}

// showsAll reports whether no skill can be hidden.
func (mw *Middleware) showsAll(ctx context.Context) bool {
	return mw.cfg.Visible == nil && scopeOf(ctx).frame == nil
}

// shownSkills are the skills that the conversation may see, in name order.
func (mw *Middleware) shownSkills(ctx context.Context, st *State) []*frozen {
	if mw.showsAll(ctx) {
		return mw.catalog.skills
	}
	var out []*frozen
	for _, f := range mw.catalog.skills {
		if mw.shows(ctx, st, f) {
			out = append(out, f)
		}
	}
	return out
}

// listingOf builds the listing of a visible set, or finds it built. Skills are
// in name order, as in the catalog.
func (mw *Middleware) listingOf(skills []*frozen) *listing {
	key := make([]byte, len(mw.catalog.skills))
	rest := skills
	for i, f := range mw.catalog.skills {
		if len(rest) > 0 && rest[0] == f {
			key[i], rest = 1, rest[1:]
		}
	}
	if l, ok := mw.listings.Load(string(key)); ok {
		return l.(*listing)
	}
	l := buildListing(skills, mw.texts, mw.cfg.ContextWindow, mw.count)
	if mw.listed.Add(1) <= maxVisibleSets {
		mw.listings.Store(string(key), &l)
	}
	return &l
}

// launchable names the skills that the model may launch, in name order.
func launchable(skills []*frozen) []string {
	var names []string
	for _, f := range skills {
		if !f.DisableModelInvocation {
			names = append(names, f.Name)
		}
	}
	return names
}

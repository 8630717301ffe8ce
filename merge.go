package skillbay

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// Merge joins a copy of the same conversation that went on elsewhere: two pods,
// one customer. It is commutative, associative and idempotent (Revision aside),
// and at equal turns it allows no tool call that either copy would not.
//
// The higher turn wins, with its window. At equal turns launches are united;
// where the copies differ the turn is contested until it ends: every restricted
// launch is a limit of its own, and nothing grants. other is copied under its
// own lock and then merged under the receiver's; a nil other is nothing.
func (s *State) Merge(other *State) {
	if other == nil || other == s {
		return
	}
	var b book
	var extras map[string]rawField
	other.do(func() {
		other.book.Batch = other.batch.saved()
		b = other.book.clone()
		extras = maps.Clone(other.extras)
	})
	s.do(func() {
		s.book.Batch = s.batch.saved()
		before := s.book
		merged := merge(before, b)
		merged.Revision = before.Revision
		if !sameBatch(merged.Batch, before.Batch) {
			s.batch = merged.Batch.restored()
		}
		s.book = merged
		for i := range s.book.Launches {
			s.book.Launches[i].policy = nil
		}
		s.bound()
		united := mergeExtras(s.extras, extras)
		if encoded(s.book) != encoded(before) || encoded(united) != encoded(s.extras) {
			s.book.Revision = max(before.Revision, b.Revision) + 1
		}
		s.extras = united
		s.shown, s.told, s.seen = shown{}, nil, nil
	})
}

// merge is Merge on values: SPEC 9.
func merge(a, b book) book {
	a.Launches, b.Launches = whole(a.Launches, b.Launches), whole(b.Launches, a.Launches)
	m := book{
		Format:    max(a.Format, b.Format),
		Session:   min(a.Session, b.Session),
		Secrets:   union(a.Secrets, b.Secrets, strings.Compare),
		Seq:       max(a.Seq, b.Seq),
		Announced: union(a.Announced, b.Announced, strings.Compare),
	}
	m.Secrets = m.Secrets[:min(len(m.Secrets), maxSecrets)]

	m.Dismissals = best(slices.Concat(a.Dismissals, b.Dismissals),
		func(d dismissal) string { return d.Skill }, compareDismissals)
	m.Pending = joint(a.Pending, b.Pending, func() []launch { return union(a.Pending, b.Pending, compareLaunches) })
	m.Pending = slices.DeleteFunc(m.Pending, func(l launch) bool {
		joined := func(o launch) bool { // in the other copy a turn has it already
			return o.Host && o.Skill == l.Skill && o.Args == l.Args && o.Time == l.Time
		}
		return m.dismissed(&l) || slices.ContainsFunc(a.Launches, joined) || slices.ContainsFunc(b.Launches, joined)
	})
	m.Turn, m.Batch = mergeTurns(&a, &b)

	// Launches: the window of the turn that counts; outside it the last of each
	// skill that is not dismissed, and what an anchor needs.
	m.Anchors = mergeAnchors(&a, &b)
	var window, rest []launch
	for _, from := range []*book{&a, &b} {
		for _, l := range from.Launches {
			if l.Window && from.Turn.N == m.Turn.N {
				window = append(window, l)
			} else {
				l.retire()
				rest = append(rest, l)
			}
		}
	}
	window, rest = union(window, nil, compareLaunches), union(rest, nil, compareLaunches)
	retired := slices.Clone(window)
	for i := range retired {
		retired[i].retire()
	}
	last := best(union(retired, rest, compareLaunches), func(l launch) string { return l.Skill }, compareLaunches)
	for _, l := range rest {
		same := func(o launch) bool { return compareLaunches(o, l) == 0 }
		over := m.dismissed(&l)
		needed := slices.ContainsFunc(last, same) || slices.ContainsFunc(m.Anchors, func(x anchor) bool { return x.of(&l) })
		if !over && needed && !slices.ContainsFunc(retired, same) {
			m.Launches = append(m.Launches, l)
		}
	}
	m.Launches = union(m.Launches, window, compareLaunches)
	m.Anchors = slices.DeleteFunc(m.Anchors, func(x anchor) bool {
		over := m.dismissed(&launch{Skill: x.Skill, Turn: x.Turn, Seq: x.Seq})
		return over || !slices.ContainsFunc(m.Launches, func(l launch) bool { return x.of(&l) })
	})
	return m
}

// whole returns the launches with what a Store redacted, where the other copy
// still has it: they are the same launches.
func whole(launches, others []launch) []launch {
	out := slices.Clone(launches)
	for i := range out {
		l := &out[i]
		if !l.Lost {
			continue
		}
		for _, o := range others {
			if o.Turn == l.Turn && o.Seq == l.Seq && !o.Lost && encoded(o.redacted()) == encoded(l.redacted()) {
				l.Args, l.Shell, l.Lost = o.Args, o.Shell, false
			}
		}
	}
	return out
}

// redacted is the launch without what Sealed may take away.
func (l launch) redacted() launch {
	l.Args, l.Shell, l.Lost, l.Window = "", nil, false, false
	return l
}

// dismissed reports whether a dismissal covers the launch.
func (b *book) dismissed(l *launch) bool {
	return slices.ContainsFunc(b.Dismissals, func(d dismissal) bool { return d.Skill == l.Skill && d.covers(l) })
}

// mergeAnchors takes the higher turn's anchors; at equal turns those that both
// copies have: a body without one is put back at the next model call.
func mergeAnchors(a, b *book) []anchor {
	switch {
	case a.Turn.N > b.Turn.N:
		return slices.Clone(a.Anchors)
	case a.Turn.N < b.Turn.N:
		return slices.Clone(b.Anchors)
	}
	return joint(a.Anchors, b.Anchors, func() []anchor {
		both := slices.DeleteFunc(slices.Clone(a.Anchors), func(x anchor) bool { return !slices.Contains(b.Anchors, x) })
		slices.SortFunc(both, compareAnchors)
		return both
	})
}

// joint is the order-keeping case of a union: equal lists stay as they are.
func joint[T any](a, b []T, otherwise func() []T) []T {
	if encoded(a) == encoded(b) {
		return slices.Clone(a)
	}
	return otherwise()
}

// mergeTurns takes the higher turn, with its batch. Equal turns are joined.
func mergeTurns(a, b *book) (turn, *savedBatch) {
	switch {
	case a.Turn.N > b.Turn.N:
		return a.Turn, a.Batch
	case a.Turn.N < b.Turn.N:
		return b.Turn, b.Batch
	}
	t := a.Turn
	openers := union(append(slices.Clone(a.Turn.Also), a.Turn.Opener), append(slices.Clone(b.Turn.Also), b.Turn.Opener),
		func(x, y opener) int { return strings.Compare(encoded(x), encoded(y)) })
	t.Opener, t.Also = openers[0], slices.Clone(openers[1:min(len(openers), maxOpeners)])
	t.Answered = a.Turn.Answered && b.Turn.Answered
	t.ByHost = a.Turn.ByHost || b.Turn.ByHost
	t.Explicit = a.Turn.Explicit || b.Turn.Explicit
	t.Grants = max(a.Turn.Grants, b.Turn.Grants)
	t.Refused = union(a.Turn.Refused, b.Turn.Refused, strings.Compare)
	t.Contested = a.Turn.Contested || b.Turn.Contested || !sameWindow(a, b)
	if !sameBatch(a.Batch, b.Batch) {
		return t, nil
	}
	return t, a.Batch
}

// sameWindow reports whether the windows of two copies hold the same launches,
// and the same of them are dismissed.
func sameWindow(a, b *book) bool {
	return slices.EqualFunc(a.window(), b.window(), func(x, y launch) bool {
		return compareLaunches(x, y) == 0
	}) && slices.EqualFunc(a.endings(), b.endings(), func(x, y dismissal) bool {
		x.Reason, y.Reason = "", "" // a Store may have redacted one
		return compareDismissals(x, y) == 0
	})
}

// window are the launches that restrict now, in canonical order.
func (b *book) window() []launch {
	w := slices.DeleteFunc(slices.Clone(b.Launches), func(l launch) bool { return !l.Window })
	slices.SortFunc(w, compareLaunches)
	return w
}

// endings are this turn's dismissals of skills in the window, in canonical order.
func (b *book) endings() []dismissal {
	d := slices.DeleteFunc(slices.Clone(b.Dismissals), func(d dismissal) bool {
		return d.Turn != b.Turn.N || !slices.ContainsFunc(b.Launches, func(l launch) bool { return l.Window && l.Skill == d.Skill })
	})
	slices.SortFunc(d, compareDismissals)
	return d
}

// compareLaunches orders launches by turn, sequence and JSON, whatever window
// they are in: that is the turn's to say.
func compareLaunches(a, b launch) int {
	if c := cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Seq, b.Seq)); c != 0 {
		return c
	}
	a.Window, b.Window = false, false
	return cmp.Compare(encoded(a), encoded(b))
}

func compareDismissals(a, b dismissal) int {
	if c := cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Covers, b.Covers)); c != 0 {
		return c
	}
	return cmp.Compare(encoded(a), encoded(b))
}

func compareAnchors(a, b anchor) int {
	if c := cmp.Or(cmp.Compare(a.Turn, b.Turn), cmp.Compare(a.Seq, b.Seq)); c != 0 {
		return c
	}
	return cmp.Compare(encoded(a), encoded(b))
}

func encoded(v any) string {
	data, _ := encode(v)
	return string(data)
}

// union is the sorted set of two lists.
func union[T any](a, b []T, compare func(T, T) int) []T {
	all := slices.Concat(a, b)
	slices.SortFunc(all, compare)
	return slices.CompactFunc(all, func(x, y T) bool { return compare(x, y) == 0 })
}

// best keeps the greatest entry of every key, sorted.
func best[T any](all []T, key func(T) string, compare func(T, T) int) []T {
	slices.SortFunc(all, compare)
	last := map[string]int{}
	for i, v := range all {
		last[key(v)] = i
	}
	var out []T
	for i, v := range all {
		if last[key(v)] == i {
			out = append(out, v)
		}
	}
	return out
}

func sameBatch(a, b *savedBatch) bool { return encoded(a) == encoded(b) }

// mergeExtras unites unknown fields; where they differ the greater text wins.
func mergeExtras(a, b map[string]rawField) map[string]rawField {
	if len(a)+len(b) == 0 {
		return nil
	}
	m := maps.Clone(a)
	if m == nil {
		m = map[string]rawField{}
	}
	for name, value := range b {
		if string(value) > string(m[name]) {
			m[name] = value
		}
	}
	return m
}

package main

import (
	"fmt"
	"runtime"

	"github.com/skillbay/skillbay/bench/peers"
)

// times measures the goals of time and size.
func (s *scorecard) times(m meter, forest *peers.Forest) error {
	for _, group := range []func(meter, *peers.Forest) error{s.load, s.call, s.history, s.gate, s.state, s.turn} {
		if err := group(m, forest); err != nil {
			return err
		}
	}
	return nil
}

// load compares with the peers whose load is comparable work: blades and adk's
// complete preload also validate headers and read bodies and files into memory,
// although neither makes a digest or keeps links from leading out.
func (s *scorecard) load(m meter, forest *peers.Forest) error {
	s.section("load")
	small, err := forest.Plain(100)
	if err != nil {
		return err
	}
	rivals := []peers.Peer{peers.Named("blades"), peers.Named("adk")}
	ops := []peers.Op{peers.Named("skillbay").LoadOp(small), peers.ReadAndHash(small)}
	for _, p := range rivals {
		ops = append(ops, p.LoadOp(small))
	}
	of, err := m.measure(ops...)
	if err != nil {
		return err
	}
	own, floor := of[0], of[1]
	fastest := s.fastest(rivals, of[2:])
	s.note("100 skills", duration(own.ns))
	s.note("floor: reading and hashing the files, one after the other", duration(floor.ns))
	s.most("load 100 skills, of "+rivals[fastest].Name+"'s time (fastest comparable)", over(own, of[2+fastest]), 0.5, "×")
	s.most("load 100 skills, of the floor's time", over(own, floor), 2.5, "×")
	if len(own.cpu) > 0 { // says more than wall time on a machine that does other things as well
		s.note("in CPU time, of "+rivals[fastest].Name+"'s", amount(over(own.inCPU(), of[2+fastest].inCPU()), "×"))
		s.note("in CPU time, of the floor's", amount(over(own.inCPU(), floor.inCPU()), "×"))
	}
	return s.loadMany(m, forest)
}

// loadMany looks at large directories: few rounds, since one load takes long.
func (s *scorecard) loadMany(m meter, forest *peers.Forest) error {
	thousand, err := forest.Plain(1000)
	if err != nil {
		return err
	}
	tens, err := forest.Plain(10_000)
	if err != nil {
		return err
	}
	m.rounds = min(m.rounds, 3)
	of, err := m.measure(peers.Named("skillbay").LoadOp(thousand), peers.Named("skillbay").LoadOp(tens))
	if err != nil {
		return err
	}
	s.note("1,000 skills", duration(of[0].ns))
	s.note("10,000 skills", duration(of[1].ns))
	s.most("load 10,000 skills, a skill's time, of that at 1,000", over(of[1], of[0])/10, 1.25, "×")
	if runtime.GOMAXPROCS(0) < 2 || len(of[1].cpu) == 0 {
		s.note("wall time of CPU time", "unknown")
		return nil
	}
	s.most("load 10,000 skills, wall time of CPU time (both cores are used)", over(of[1], of[1].inCPU()), 0.75, "×")
	return nil
}

// call compares with the peers that make the list of skills for each model call:
// genkit puts it into a request, cagent only makes the text. blades hands out a
// text that it made once, and does nothing to a request: a note.
func (s *scorecard) call(m meter, forest *peers.Forest) error {
	s.section("one model call: 100 skills, 200 messages of 400 bytes, 3 active")
	tree, err := forest.Plain(100)
	if err != nil {
		return err
	}
	rivals := []peers.Peer{peers.Named("genkit"), peers.Named("cagent"), peers.Named("blades")}
	const rendering = 2 // of the rivals
	var ops []peers.Op
	for _, p := range append([]peers.Peer{peers.Named("skillbay")}, rivals...) {
		served, err := p.Open(tree)
		if err != nil {
			return err
		}
		ops = append(ops, served.CallOp())
	}
	of, err := m.measure(ops...)
	if err != nil {
		return err
	}
	fastest := s.fastest(rivals[:rendering], of[1:1+rendering])
	s.note("skillbay", duration(of[0].ns))
	s.note("blades: "+rivals[rendering].Lacks.Call, duration(of[1+rendering].ns))
	s.most("BeforeModel, of "+rivals[fastest].Name+"'s time (fastest that renders)", over(of[0], of[1+fastest]), 0.5, "×")
	return s.catalog(m, forest)
}

// fastest notes the rivals' times and returns the index of the lowest.
func (s *scorecard) fastest(rivals []peers.Peer, of []sample) (at int) {
	for i, p := range rivals {
		s.note(p.Name, duration(of[i].ns))
		if of[i].ns < of[at].ns {
			at = i
		}
	}
	return at
}

func (s *scorecard) catalog(m meter, forest *peers.Forest) error {
	few, err := newTalk(forest, 100, 200)
	if err != nil {
		return err
	}
	many, err := newTalk(forest, 10_000, 200)
	if err != nil {
		return err
	}
	of, err := m.measure(few.BeforeModel(), many.BeforeModel())
	if err != nil {
		return err
	}
	s.note("10,000 skills", duration(of[1].ns))
	s.most("BeforeModel at 10,000 skills, of its time at 100", over(of[1], of[0]), 1.2, "×")
	return nil
}

// history says what a message more costs, early and late. Were the work quadratic,
// a message of the last 15,000 would cost five times one of the first; twice is
// what caches may account for, since 20,000 messages fit into none.
func (s *scorecard) history(m meter, forest *peers.Forest) error {
	s.section("one model call: messages")
	sizes := []int{10, 200, 5000, 20_000}
	var ops []peers.Op
	var talks []*peers.Conversation
	for _, n := range sizes {
		talk, err := newTalk(forest, 100, n)
		if err != nil {
			return err
		}
		talks, ops = append(talks, talk), append(ops, talk.BeforeModel())
	}
	ops = append(ops, peers.CopyMessages(talks[2].History()))
	of, err := m.measure(ops...)
	if err != nil {
		return err
	}
	for i, n := range sizes {
		s.note(fmt.Sprintf("%d messages", n), duration(of[i].ns))
	}
	s.note("floor: copying the slice of 5000", duration(of[4].ns))
	messages, kib := float64(sizes[2]-sizes[0]), float64(talks[2].Bytes()-talks[0].Bytes())/1024
	s.note("a message more", duration(less(of[2], of[0])/messages))
	s.note("a KiB of text more", duration(less(of[2], of[0])/kib))
	early, late := less(of[2], of[0])/messages, less(of[3], of[2])/float64(sizes[3]-sizes[2])
	s.most("BeforeModel, a message more at 20,000, of one at 5,000 (linear)", late/early, 2, "×")
	return nil
}

// gate reads the library's own benchmark of one decision, which knows what lies
// inside. What a history adds, and what a caller sees from outside, is measured
// here.
func (s *scorecard) gate(m meter, forest *peers.Forest) error {
	s.section("gate and launch")
	inside, err := ownBenchmarks()
	if err != nil {
		return err
	}
	early, err := inside.of("BenchmarkGate/10")
	if err != nil {
		return err
	}
	late, err := inside.of("BenchmarkGate/5000")
	if err != nil {
		return err
	}
	launch, err := inside.of("BenchmarkLaunch")
	if err != nil {
		return err
	}
	tree, err := forest.Limited(10)
	if err != nil {
		return err
	}
	mw, err := peers.NewMiddleware(tree)
	if err != nil {
		return err
	}
	short, err := peers.NewGate(mw, 10)
	if err != nil {
		return err
	}
	long, err := peers.NewGate(mw, 5000)
	if err != nil {
		return err
	}
	of, err := m.measure(short.CallTool(), long.CallTool(), short.BareCall(), short.Tool(), short.BareTool())
	if err != nil {
		return err
	}
	s.note("CallTool with 10 messages, less the bare call", duration(less(of[0], of[2])))
	s.note("CallTool with 5,000 messages, less the bare call", duration(less(of[1], of[2])))
	s.note("a wrapped tool, less the bare tool", duration(less(of[3], of[4])))
	s.note("a wrapped tool's allocations", amount(of[3].allocs, ""))
	s.most("gate, 10 messages (the library's BenchmarkGate)", early.ns, 300, "ns")
	s.most("gate, 5,000 messages (BenchmarkGate)", late.ns, 300, "ns")
	s.most("gate, allocations of an allowed call (BenchmarkGate)", max(early.allocs, late.allocs), 0, "")
	s.most("launch of a body without arguments, allocations (BenchmarkLaunch)", launch.allocs, 5, "")
	return nil
}

func (s *scorecard) state(_ meter, forest *peers.Forest) error {
	s.section("State: 10 skills")
	tree, err := forest.Limited(10)
	if err != nil {
		return err
	}
	mw, err := peers.NewMiddleware(tree)
	if err != nil {
		return err
	}
	for _, active := range []int{0, 1, 8, 3} {
		book, err := peers.NewBook(mw, active)
		if err != nil {
			return err
		}
		idle, err := book.Idle(5000)
		if err != nil {
			return err
		}
		size := float64(len(book.JSON))
		if active != 3 {
			s.note(fmt.Sprintf("JSON, %d active", active), amount(size, "bytes"))
			s.note(fmt.Sprintf("memory of an idle conversation, %d active", active), amount(idle, "bytes"))
			continue
		}
		s.note("memory of an idle conversation, 3 active", amount(idle, "bytes"))
		s.most("State JSON, 3 active", size, 1400, "bytes")
		s.most("memory of an idle conversation beyond its JSON's size, 3 active", idle-size, 2048, "bytes")
	}
	return nil
}

func (s *scorecard) turn(m meter, forest *peers.Forest) error {
	s.section("executor turn: 100 skills, one tool call, a model that does nothing")
	tree, err := forest.Limited(100)
	if err != nil {
		return err
	}
	mw, err := peers.NewMiddleware(tree)
	if err != nil {
		return err
	}
	turn, err := peers.NewTurn(mw)
	if err != nil {
		return err
	}
	active, err := peers.NewActiveTurn(mw)
	if err != nil {
		return err
	}
	of, err := m.measure(peers.BareTurn().Run(), turn.Run(), active.Run())
	if err != nil {
		return err
	}
	s.note("bare", duration(of[0].ns))
	s.note("one skill active, its body injected, of the bare time", amount(over(of[2], of[0]), "×"))
	s.most("executor turn, of the bare executor's time", over(of[1], of[0]), 1.25, "×")
	return nil
}

// newTalk is a conversation of so many messages with the skills of a Limited
// tree.
func newTalk(forest *peers.Forest, skills, messages int) (*peers.Conversation, error) {
	tree, err := forest.Limited(skills)
	if err != nil {
		return nil, err
	}
	mw, err := peers.NewMiddleware(tree)
	if err != nil {
		return nil, err
	}
	return peers.Talk(mw, messages)
}

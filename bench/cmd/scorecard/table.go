package main

import (
	"fmt"
	"io"

	"github.com/skillbay/skillbay/bench/peers"
)

// row is one line of a table.
type row struct {
	name, lacks string
	op          peers.Op
}

// printTables prints the three tables of peers in Markdown.
func printTables(w io.Writer, m meter, forest *peers.Forest) error {
	tree, err := forest.Plain(100)
	if err != nil {
		return err
	}
	loads := []row{{"floor", "reads and hashes the files, and nothing else", peers.ReadAndHash(tree)}}
	calls := []row{}
	bodies := []row{}
	for _, p := range peers.All() {
		served, err := p.Open(tree)
		if err != nil {
			return err
		}
		loads = append(loads, row{p.Name, p.Lacks.Load, p.LoadOp(tree)})
		calls = append(calls, row{p.Name, p.Lacks.Call, served.CallOp()})
		for _, beside := range served.Beside {
			calls = append(calls, row{p.Name + "-" + beside.Name, "(" + beside.What + ")", beside.Op})
		}
		bodies = append(bodies, row{p.Name, p.Lacks.Body, served.BodyOp(peers.SkillName(42))})
	}
	talk, err := newTalk(forest, 100, 200)
	if err != nil {
		return err
	}
	calls = append([]row{{"floor", "copies the slice of 200 messages, and nothing else", peers.CopyMessages(talk.History())}}, calls...)
	for _, t := range []struct {
		title string
		rows  []row
	}{{"Load 100 skills", loads}, {"One model call, 100 skills", calls}, {"One body", bodies}} {
		if err := printTable(w, m, t.title, t.rows); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "Peers:")
	for _, p := range peers.All() {
		fmt.Fprintf(w, "- %s: %s\n", p.Name, p.Version)
	}
	return nil
}

func printTable(w io.Writer, m meter, title string, rows []row) error {
	ops := make([]peers.Op, len(rows))
	for i, r := range rows {
		ops[i] = r.op
	}
	of, err := m.measure(ops...)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s:\n\n| | time | memory | allocations | without |\n|---|---:|---:|---:|---|\n", title)
	for i, r := range rows {
		fmt.Fprintf(w, "| %s | %s | %s | %.0f | %s |\n", r.name, duration(of[i].ns), memory(of[i].bytes), of[i].allocs, r.lacks)
	}
	fmt.Fprintln(w)
	return nil
}

// duration is a time in the unit that suits it.
func duration(ns float64) string {
	switch {
	case ns < 1e3:
		return amount(ns, "ns")
	case ns < 1e6:
		return amount(ns/1e3, "µs")
	}
	return amount(ns/1e6, "ms")
}

// memory is a size in the unit that suits it.
func memory(bytes float64) string {
	if bytes < 1024 {
		return amount(bytes, "B")
	}
	return amount(bytes/1024, "KiB")
}

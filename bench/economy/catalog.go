package economy

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"testing/fstest"
)

// skill is one of a workload's skills.
type skill struct {
	name, description, body string
	tool                    string // the business tool that its procedure uses
}

// The service's domain: an area and a matter make a skill.
var (
	areas = strings.Fields(`order invoice parcel warranty voucher account contract delivery pickup exchange
		subscription repair complaint membership gift-card installation spare-part trade-in rental insurance`)
	matters = strings.Fields("refund change cancellation delay damage loss extension transfer dispute audit")
	tools   = []string{"OrderLookup", "AccountLookup", "CaseNote", "ParcelTrace", "PaymentStatus"}
)

// catalogue makes n skills, whose bodies are of that many tokens but for the
// first, whose body is of first.
func catalogue(n, body, first int) []skill {
	if n > len(areas)*len(matters) {
		panic("economy: more skills than there are names")
	}
	skills := make([]skill, n)
	for i := range skills {
		// Neighbours differ in area and in matter.
		name := areas[i%len(areas)] + "-" + matters[(i+i/len(areas))%len(matters)]
		r := rand.New(rand.NewPCG(textSeed, uint64(i)))
		size := body
		if i == 0 {
			size = first
		}
		s := &skills[i]
		s.name, s.tool = name, tools[i%len(tools)]
		words := strings.ReplaceAll(name, "-", " ")
		s.description = "How the company handles a case of " + words + ", from the first question to the closing note."
		s.body = steps(r, "Procedure for "+words, size)
	}
	return skills
}

// files are the skills as a source of skillbay's.
func files(skills []skill) fs.FS {
	out := fstest.MapFS{}
	for _, s := range skills {
		out[s.name+"/SKILL.md"] = &fstest.MapFile{Data: fmt.Appendf(nil,
			"---\ndescription: %s\nallowed-tools: %s\n---\n%s\n", s.description, strings.Join(tools, ", "), s.body)}
	}
	return out
}

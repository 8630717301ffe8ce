package main

import (
	"regexp"

	"github.com/skillbay/skillbay"
)

// words are everything that depends on the language: what the shop, the
// transcript and the scripted model say, and what the model understands.
type words struct {
	texts     *skillbay.Texts
	skillsDir string // root of the skills among the embedded files

	// The shop.
	system        string            // the agent's system message
	summarySystem string            // asks a model for a summary
	saleReason    string            // why no price is matched
	emailOnFile   string            // stands for an address that nobody needs to see
	tools         map[string]string // descriptions, by tool
	products      []product
	orders        []order

	// What the scripted model says …
	summary, denied, notForMe, refused, farewell, fallback, movedOn string
	plain                                                           map[string]string // about tools that no skill covers
	space                                                           string            // between two sentences
	// … and what it understands.
	invokedMark                                  string // told of a body that the host invoked
	sentence, namedSkill, address, money, thanks *regexp.Regexp
	empty                                        map[string]bool // words that say nothing, as terms cuts them

	// The story: what the customer says, by turn, and what must come of it.
	lines                           [12]string
	newAddress, arrival, vat, soFar string
	inTransit, closedReason         string
	customer, agent, host, turn     string // the transcript's labels
	notes                           notes
}

// notes are the transcript's own sentences.
type notes struct {
	intro, skills, listing                         string
	summarised, supervisor, shipped, closed        string
	stopped, resumed, onceOnly                     string
	ledgers, active, announced, invoked, dismissed string
	byHost, byModel                                string
	tableTitle, tableHead, total, verdict          string
	chat, bye, failed                              string
}

// languages are the values of -lang.
var languages = map[string]*words{"en": english, "zh": chinese}

// set returns a set of words.
func set(list ...string) map[string]bool {
	s := make(map[string]bool, len(list))
	for _, w := range list {
		s[w] = true
	}
	return s
}

package peers

import "fmt"

// Op is one measured operation. It is called again and again by one goroutine,
// and an error ends the measurement.
type Op func() error

// Peer is a library that gives skills to agents.
type Peer struct {
	// Name is its short name: a row of the tables, a part of a benchmark's name.
	Name string
	// Version is its module's path and version.
	Version string
	// Lacks says what the peer does not do in a measurement that skillbay does.
	Lacks Lacks
	// Load reads the skills of a tree, as far as the peer reads them before it
	// serves. Not for concurrent use: a peer may need a working directory.
	Load func(Tree) (*Loaded, error)
}

// Lacks are remarks, one a measurement: what its row is without.
type Lacks struct{ Load, Call, Body string }

// Loaded is what a peer made of a tree.
type Loaded struct {
	// Count is how many skills the peer knows: some drop skills without a word,
	// and a fast load of none is no load.
	Count int
	// Serve does what is done once between loading and the first model call.
	Serve func() (*Served, error)
}

// Served is a peer at work.
type Served struct {
	// Call does what the peer does for one model call, and returns the text in
	// which the model finds the list of skills.
	Call func() (string, error)
	// Body returns the named skill's body as the peer hands it to the model.
	Body func(name string) (string, error)
	// Beside are further operations that help to read Call.
	Beside []Beside
}

// Beside is an operation next to Call.
type Beside struct {
	// Name is what follows the peer's name in the row's name.
	Name string
	// What says what the operation is.
	What string
	Op   Op
}

// All are the peers, skillbay first and the others by name.
func All() []Peer {
	return []Peer{skillbayPeer(), adkPeer(), adkPlainPeer(), bladesPeer(), cagentPeer(), einoPeer(), genkitPeer(), goskillsPeer(), trpcPeer()}
}

// Named returns the peer of that name. It panics when there is none: names are
// constants of this module.
func Named(name string) Peer {
	for _, p := range All() {
		if p.Name == name {
			return p
		}
	}
	panic("no peer " + name)
}

// LoadOp is the operation of loading the tree, with a check that every skill of
// it came in.
func (p Peer) LoadOp(tree Tree) Op {
	return func() error {
		_, err := p.load(tree)
		return err
	}
}

// Open loads the tree and prepares to serve it.
func (p Peer) Open(tree Tree) (*Served, error) {
	loaded, err := p.load(tree)
	if err != nil {
		return nil, err
	}
	return loaded.Serve()
}

func (p Peer) load(tree Tree) (*Loaded, error) {
	loaded, err := p.Load(tree)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	if loaded.Count != tree.Skills {
		return nil, fmt.Errorf("%s loaded %d skills of %d", p.Name, loaded.Count, tree.Skills)
	}
	return loaded, nil
}

// CallOp is Call as an operation.
func (s *Served) CallOp() Op {
	return func() error {
		_, err := s.Call()
		return err
	}
}

// BodyOp is the delivery of one skill's body as an operation.
func (s *Served) BodyOp(name string) Op {
	return func() error {
		_, err := s.Body(name)
		return err
	}
}

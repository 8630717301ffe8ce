// Package peers measures skillbay beside other Go libraries that give skills to
// agents.
//
// # What is measured
//
//   - Load: a directory of N skills, each with a body of 2 KiB and one reference
//     file, read until the peer could serve it.
//   - Call: what a peer does for one model call with 100 skills, the list of
//     skills and all.
//   - Body: one skill's body, as the model gets it.
//   - Gate, State and Turn: what only skillbay has, beside the floor of the same
//     work without it.
//
// Every peer reads the same files. Their headers hold a name and a description
// and nothing else, since that is what all of them read: adk and goskills refuse
// an `allowed-tools` written as a string, and blades one written as a list.
// Where a skill of skillbay's must restrict something, the tree is another one.
//
// # Reading the figures
//
// No two rows are the same work. Each adapter says in its comment, and in its
// Lacks for the tables, what its peer does not do in that measurement. A peer
// that hands out a string that it made once is faster than any that looks at the
// conversation, and a peer that reads headers alone loads faster than one that
// reads bodies.
//
// # Peers
//
// The seven of the module's go.mod, at these versions. Each one's calls are its
// public ones. Other libraries for skills in Go are not here because they cannot
// be had from the module proxy, or need versions of shared dependencies that
// these seven cannot be built with (picoclaw).
package peers

// Package bench holds the measurements of skillbay that need more than the
// library itself. It is a module of its own, so that the library's go.mod does
// not name its rivals.
//
//   - peers: benchmarks of skillbay beside seven other Go libraries that give
//     skills to agents, all in one test binary.
//   - economy: what strategies of loading skills cost in tokens.
//   - cmd/scorecard: measures the goals of both and says which are missed.
//
// The module needs the Go version that its strictest peer needs, which is newer
// than the library's, and is therefore tested on its own (GOWORK=off).
package bench

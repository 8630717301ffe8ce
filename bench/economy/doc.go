// Package economy plays whole conversations and accounts for every token that
// is sent to a model: how many there are, how many of them a provider can serve
// from its prompt cache, and what they cost.
//
// The conversations run through the real skillbay (a loop over WrapModel and
// CallTools, as the README shows) and through plain reference strategies that
// deliver the same skills in other ways. A simulated model takes the place of a
// provider's. It acts only on the messages that it is really sent: it loads a
// skill when the body is not among them, and only if it can see the skill's
// name.
//
// # What is counted
//
// A call is serialised as providers do: tools and system prompt first, then the
// messages in order, each with a mark of its role. Cached are the tokens of the
// longest common prefix with the previous call of the same conversation. The
// bill is the tokens sent at the price of one for a fresh and a tenth for a
// cached token. Cached tokens are found alike for all strategies, as if a cache
// never expired and cut at any token. Not counted: what the model writes (given
// apart, it differs by the calls of skill and skill_dismiss), surcharges for
// writing a cache, and the summariser's own calls.
//
// A skill is available in a turn if the model has its body whole at every
// business call and at the answer of that turn. A strategy that saves tokens by
// losing guidance shows there.
//
// Everything is deterministic: the same workload, strategy and options give the
// same figures on every machine.
package economy

// Package wire has small loopback servers that speak the wire formats of the
// providers that langchaingo has clients for, and judge requests as the real
// services do: a request that a service would refuse is refused, with the
// service's kind of error. What a service only ignores is ignored here too,
// and is missing from the [Prompt] that its model gets.
//
// One file has one provider: what it reads, what it refuses and how it answers.
// Beside each rule stands where it comes from: the provider's documentation or
// published code, or, for rules that services enforce but do not write down,
// a public report that quotes the refusal.
//
// The model behind a server is a [Script]: a function of the Prompt, and of
// nothing else. It sees what the provider would pass to its model, so a test
// whose script answers right has shown that the text arrived.
//
//	server := wire.Anthropic.Serve(script)
//	defer server.Close()
//	llm, err := server.Client()                // langchaingo's own client
//	resp, err := llm.GenerateContent(ctx, messages)
//	server.Exchanges()                          // what was sent, and what came of it
//
// Servers listen on 127.0.0.1 only. They check that a credential is present,
// not which.
package wire

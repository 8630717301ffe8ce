// Package integration checks skillbay against every provider client that
// langchaingo has, over loopback servers that judge requests as the providers
// do (package wire). Its tests print the table in PROVIDERS.md, and
// `go test -update` writes it.
package integration

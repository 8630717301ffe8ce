package main

import (
	"context"

	"github.com/skillbay/skillbay"
)

// customer is who talks to the shop. It comes from the login, never from the
// model: tools and policy read it from the context.
type customer struct {
	id    string // as the orders name it
	trade bool   // a business that buys on account
}

// customerKey is the context key of the customer.
type customerKey struct{}

// withCustomer returns a context for requests of c.
func withCustomer(ctx context.Context, c customer) context.Context {
	return context.WithValue(ctx, customerKey{}, c)
}

// customerFrom returns the customer of ctx; the zero customer owns no order.
func customerFrom(ctx context.Context) customer {
	c, _ := ctx.Value(customerKey{}).(customer)
	return c
}

// visible is skillbay's Config.Visible: consumers do not see trade terms, so
// that neither the listing nor a launch by name gives them away.
func visible(ctx context.Context, s skillbay.Skill) bool {
	return s.Name != "trade-terms" || customerFrom(ctx).trade
}

// permit returns skillbay's Config.Permit: during the spring sale no price is
// matched, and the model is told why.
func permit(w *words) func(context.Context, skillbay.Skill, string) skillbay.Decision {
	return func(_ context.Context, s skillbay.Skill, _ string) skillbay.Decision {
		if s.Name == "price-match" {
			return skillbay.Deny(w.saleReason)
		}
		return skillbay.Allow
	}
}

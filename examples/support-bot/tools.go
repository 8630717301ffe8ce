package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/tmc/langchaingo/tools"
)

// shop is the business behind the tools: the database and the clock.
type shop struct {
	store *store
	now   func() time.Time
	words *words
	ran   func(tool string) // told of every tool that runs
}

// result is what a tool tells the model: a flat JSON object.
type result map[string]string

// businessTool is one operation of the shop. It knows nothing of skills:
// whether it may run is skillbay's business, whether it makes sense is its own.
type businessTool struct {
	name, description string
	params            []string // names of its parameters, all required texts
	run               func(context.Context, map[string]string) (result, error)
	ran               func(tool string)
}

var _ tools.Tool = businessTool{}

// Name returns the tool's name.
func (t businessTool) Name() string { return t.name }

// Description returns what the tool does and the form of its input, which the
// agents that send no schemas need.
func (t businessTool) Description() string {
	form := make([]string, len(t.params))
	for i, p := range t.params {
		form[i] = fmt.Sprintf("%q: %q", p, "…")
	}
	return t.description + " Input: {" + strings.Join(form, ", ") + "}"
}

// Schema returns the JSON schema of the input, which skillbay sends in the
// place of langchaingo's one-string form.
func (t businessTool) Schema() map[string]any {
	properties := make(map[string]any, len(t.params))
	for _, p := range t.params {
		properties[p] = map[string]any{"type": "string"}
	}
	return map[string]any{"type": "object", "properties": properties, "required": t.params}
}

// Call runs the operation. What the model can mend is text; an error ends the run.
func (t businessTool) Call(ctx context.Context, input string) (string, error) {
	t.ran(t.name)
	var args map[string]string
	if err := json.Unmarshal([]byte(input), &args); err != nil {
		return "The input is not a JSON object of texts: " + strings.Join(t.params, ", "), nil
	}
	for _, p := range t.params {
		if args[p] == "" {
			return "The input lacks " + strconv.Quote(p), nil
		}
	}
	out, err := t.run(ctx, args)
	if errors.Is(err, sql.ErrNoRows) {
		return `{"error":"no such order of this customer"}`, nil
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", t.name, err)
	}
	text, err := json.Marshal(out)
	return string(text), err
}

// tools returns the shop's operations.
func (s *shop) tools() []tools.Tool {
	list := []businessTool{
		{name: "CatalogSearch", params: []string{"query"}, run: s.search},
		{name: "OrderLookup", params: []string{"order"}, run: s.lookup},
		{name: "RefundQuote", params: []string{"order", "days"}, run: s.quote},
		{name: "RefundSubmit", params: []string{"order", "amount"}, run: s.refund},
		{name: "ShippingTrack", params: []string{"order"}, run: s.track},
		{name: "AddressChange", params: []string{"order", "address"}, run: s.changeAddress},
		{name: "InvoiceSend", params: []string{"order"}, run: s.sendInvoice},
		{name: "CreditGrant", params: []string{"order", "amount"}, run: s.grantCredit},
		{name: "handoff_to_human", params: []string{"reason"}, run: s.handOff},
	}
	all := make([]tools.Tool, len(list))
	for i, t := range list {
		t.description, t.ran = s.words.tools[t.name], s.ran
		all[i] = t
	}
	return all
}

// search finds the products that the query names.
func (s *shop) search(ctx context.Context, args map[string]string) (result, error) {
	products, err := s.store.products(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range products {
		if strings.Contains(strings.ToLower(args["query"]), strings.ToLower(p.name)) {
			return result{"item": p.name, "price": euros(p.price), "colours": p.colours, "stock": strconv.FormatInt(p.stock, 10)}, nil
		}
	}
	return result{"error": "no product of that name"}, nil
}

// lookup shows an order; the address stays here.
func (s *shop) lookup(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	return result{"order": o.id, "item": o.item, "category": o.category, "price": euros(o.price), "status": o.status, "delivered": o.delivered}, nil
}

// quote says what may be refunded within a return window of so many days.
func (s *shop) quote(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	days, err := strconv.Atoi(args["days"])
	if err != nil {
		return result{"error": "days is not a number"}, nil
	}
	amount := o.price
	if !s.within(o, days) {
		amount = 0
	}
	return result{"order": o.id, "amount": euros(amount), "days": args["days"]}, nil
}

// within reports whether the order was delivered at most so many days ago.
func (s *shop) within(o order, days int) bool {
	delivered, err := time.Parse(time.DateOnly, o.delivered)
	return err == nil && s.now().Sub(delivered) <= time.Duration(days)*24*time.Hour
}

// refund pays money back: never more than the order cost.
func (s *shop) refund(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	if amount, ok := cents(args["amount"]); !ok || amount <= 0 || amount > o.price {
		return result{"error": "the amount is not between 0.01 and the price of the order"}, nil
	}
	ref, err := s.store.effect(ctx, "Refund", o.id, args["amount"])
	return result{"ref": ref, "order": o.id, "amount": args["amount"]}, err
}

// track says where a parcel is.
func (s *shop) track(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	return result{"order": o.id, "parcel": "P" + o.id[1:], "status": o.status, "carrier": o.carrier, "expected": o.expected}, nil
}

// changeAddress redirects an order that has not left the warehouse.
func (s *shop) changeAddress(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	if err := s.store.setAddress(ctx, o.id, args["address"]); err != nil {
		return nil, err
	}
	_, err = s.store.effect(ctx, "Address", o.id, args["address"])
	return result{"order": o.id, "changed": args["address"]}, err
}

// sendInvoice mails a copy; the address on file is not told to the model.
func (s *shop) sendInvoice(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	ref, err := s.store.effect(ctx, "Invoice", o.id, "")
	return result{"invoice": ref, "order": o.id, "sent_to": s.words.emailOnFile}, err
}

// grantCredit books a credit for the customer of an order.
func (s *shop) grantCredit(ctx context.Context, args map[string]string) (result, error) {
	o, err := s.find(ctx, args)
	if err != nil {
		return nil, err
	}
	if amount, ok := cents(args["amount"]); !ok || amount <= 0 {
		return result{"error": "the amount is not a sum of money"}, nil
	}
	ref, err := s.store.effect(ctx, "Credit", o.id, args["amount"])
	return result{"credit": ref, "order": o.id, "amount": args["amount"]}, err
}

// handOff queues the conversation for a person.
func (s *shop) handOff(ctx context.Context, args map[string]string) (result, error) {
	ref, err := s.store.effect(ctx, "Handoff", "", args["reason"])
	return result{"ticket": ref}, err
}

// find returns the order that the arguments name, if it is the customer's.
func (s *shop) find(ctx context.Context, args map[string]string) (order, error) {
	return s.store.order(ctx, customerFrom(ctx).id, args["order"])
}

// euros writes cents as a sum: 4990 is "49.90".
func euros(c int64) string { return fmt.Sprintf("%d.%02d", c/100, c%100) }

// cents reads a sum of the form "49.90".
func cents(sum string) (int64, bool) {
	whole, part, found := strings.Cut(sum, ".")
	if !found || len(part) != 2 {
		return 0, false
	}
	c, err := strconv.ParseInt(whole+part, 10, 64)
	return c, err == nil
}

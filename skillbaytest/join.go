package skillbaytest

import (
	"slices"
	"testing"
	"testing/fstest"

	"github.com/skillbay/skillbay"
)

// testJoin lets two machines work on one conversation at once, each with a
// Middleware of its own: both launches are kept.
func testJoin(t *testing.T, store skillbay.Store) {
	machine := func() *skillbay.Middleware {
		t.Helper()
		mw, err := skillbay.New(skillbay.Config{
			Store: store,
			Skills: []skillbay.Source{skillbay.FS(fstest.MapFS{
				"refunds/SKILL.md":  {Data: []byte("---\ndescription: Refunds\nallowed-tools: OrderLookup\n---\nLook first.\n")},
				"delivery/SKILL.md": {Data: []byte("---\ndescription: Parcels\n---\nAsk the carrier.\n")},
			}, ".")},
		})
		if err != nil {
			t.Fatal(err)
		}
		return mw
	}
	one, two := machine(), machine()
	base := skillbay.WithConversation(t.Context(), "4711")
	first, err := one.LoadState(base)
	if err != nil {
		t.Fatal(err)
	}
	second, err := two.LoadState(base)
	if err != nil {
		t.Fatal(err)
	}
	if err := one.Invoke(first, "refunds", "A123"); err != nil {
		t.Fatal(err)
	}
	if err := two.Invoke(second, "delivery", ""); err != nil {
		t.Fatal(err)
	}
	if err := one.Dismiss(first, "refunds", "not needed"); err != nil {
		t.Fatal(err)
	}
	for _, save := range []error{two.SaveState(second), one.SaveState(first)} {
		if save != nil {
			t.Fatal(save)
		}
	}
	last, err := one.LoadState(base)
	if err != nil {
		t.Fatal(err)
	}
	st, _ := skillbay.StateFrom(last)
	if got := st.Active(); !slices.Equal(got, []string{"delivery"}) {
		t.Errorf("active: %q, want delivery alone", got)
	}
	if got := st.Dismissed(); len(got) != 1 || got[0].Skill != "refunds" || got[0].Reason != "not needed" {
		t.Errorf("dismissed: %v, want refunds", got)
	}
}

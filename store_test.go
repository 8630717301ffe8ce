package skillbay_test

import (
	"testing"

	. "github.com/skillbay/skillbay"
	"github.com/skillbay/skillbay/skillbaytest"
)

func TestMemoryStore(t *testing.T) {
	skillbaytest.TestStore(t, func(*testing.T) Store { return new(MemoryStore) })
}

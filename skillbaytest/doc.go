// Package skillbaytest holds what others write for skillbay against skillbay's
// contracts: [TestStore] a Store.
package skillbaytest

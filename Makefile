# What a contributor runs and the CI runs; `make check` is all of it.

SHELL := /bin/bash

# Every module of this repository: the library, and what lives beside it.
MODULES := $(patsubst %/,%,$(sort $(dir $(wildcard go.mod */go.mod cmd/*/go.mod))))

# Tests run in the workspace of go.work, bench/ aside. Everything else looks at one
# module at a time, as its users do; so must the tools, since a workspace takes no
# -modfile.
ALONE := GOWORK=off
TOOL  := $(ALONE) go tool -modfile=$(CURDIR)/tools.mod

# The race detector needs cgo: without a C compiler, `make check RACE=`.
RACE     ?= -race
FUZZTIME ?= 10s

# each runs a command in every module, up to the first that fails.
each = @set -e; for dir in $(MODULES); do echo "== $$dir: $(1)"; (cd "$$dir" && $(1)); done

.PHONY: check lint fmt vet staticcheck golangci-lint actionlint tidy test stores build fuzz cover bench once scorecard demo modules

check: test stores once build tidy lint

lint: fmt vet staticcheck golangci-lint actionlint

fmt:
	@echo "== gofmt, gofumpt"
	@files=$$(gofmt -l . && $(TOOL) gofumpt -l .); if [ -n "$$files" ]; then echo "not formatted:"; echo "$$files"; exit 1; fi

vet:
	$(call each,$(ALONE) go vet ./...)

staticcheck:
	$(call each,$(TOOL) staticcheck ./...)

golangci-lint:
	$(call each,$(TOOL) golangci-lint run --config=$(CURDIR)/.golangci.yml ./...)

actionlint:
	@echo "== actionlint"
	@$(TOOL) actionlint .github/workflows/*.yml

tidy:
	$(call each,$(ALONE) go mod tidy -diff)

# bench/ brings the peers along. It is no part of the workspace, where their
# requirements would raise those of all others, and it does without the race
# detector, which would take minutes to compile them.
test:
	$(call each,if [ $$dir = bench ]; then $(ALONE) go test -shuffle=on ./...; else go test $(RACE) -shuffle=on ./...; fi)

# The tests of States in stores, at full size: which databases ran, which were
# skipped, and the figures. `.ci/services` installs the databases.
stores:
	@echo "== integration: crash, two pods, soak, faults"
	@cd integration && set -o pipefail && go test -count=1 -v -timeout 15m -run '^(TestStores|TestCrash|TestTwoPods|TestSoak|TestFaults)$$' . 2>&1 \
		| grep -E '^(---|ok|FAIL|panic:)|^ +--- (FAIL|SKIP)|figure:|Error|skip'

build:
	$(call each,$(ALONE) go build -o /dev/null ./...)

# Every fuzz target for FUZZTIME: `go test -fuzz` takes one at a time.
fuzz:
	@set -e; for target in $$(go test -list '^Fuzz' . | grep '^Fuzz'); do \
		echo "== $$target"; go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) .; done

cover:
	go test -coverprofile=coverage.out .
	go tool cover -html=coverage.out -o coverage.html
	go tool cover -func=coverage.out | tail -1

# Both tables: tokens by strategy, and time beside the peers.
bench:
	cd bench && $(ALONE) go run ./cmd/economy && $(ALONE) go run ./cmd/scorecard -table

# Every goal of speed and tokens, a line each; it fails when one is missed.
scorecard:
	@cd bench && $(ALONE) go run ./cmd/scorecard

# Each benchmark of every module, once: that they still run.
once:
	$(call each,$(ALONE) go test -run '^$$' -bench . -benchtime 1x ./...)

demo:
	go run ./examples/support-bot

# The modules, one a line: for scripts.
modules:
	@printf '%s\n' $(MODULES)

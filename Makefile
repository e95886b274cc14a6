# The five commands that matter. Go is all they need; the quickstart also needs
# Python 3.8 or newer, because its tasks are Python packages.
GO        ?= go
BIN       := bin/valence
export CGO_ENABLED = 0
export GO

# Where git cannot read the checkout the binary goes without its revision.
STAMP     := $(shell git rev-parse -q --verify HEAD >/dev/null 2>&1 && echo auto || echo false)

.PHONY: build quickstart test test-kube race fuzz check lint bench bench-kube clean

build: ## compile the command and the skill plugins
	$(GO) build -trimpath -buildvcs=$(STAMP) -o $(BIN) ./cmd/valence
	$(BIN) plugin build -q

quickstart: build ## train all five skills jointly and print what improved
	$(BIN) doctor -q
	$(BIN) train -c examples/quickstart/run.toml --resume
	$(BIN) report runs/quickstart

test: build check ## everything CI checks
	$(GO) test -timeout 30m ./...
	./scripts/race

test-kube: ## the kube driver on a real control plane and node, made and taken down here
	./test/kube/run

race: ## the race detector, as far as there is a C compiler
	./scripts/race

fuzz: ## every fuzz target for FUZZTIME each, 60s unless set
	./scripts/fuzz

check: ## what the tool chain itself objects to
	$(GO) vet ./...
	@bad=$$("$$($(GO) env GOROOT)/bin/gofmt" -l $$($(GO) list -f '{{.Dir}}' ./...)) && \
		test -z "$$bad" || { echo "$$bad"; echo 'run: go fmt ./...'; exit 1; }

lint: check ## staticcheck as well, which is fetched
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.0 ./...

bench: build ## the figures of the documentation, side by side
	./bench/run

bench-kube: ## sandboxes as pods: one real node, then 10,000 pods on fake ones
	./bench/kube/run

clean:
	rm -rf bin .cache

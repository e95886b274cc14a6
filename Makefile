# The five commands that matter. Go is all they need; the quickstart also needs
# Python 3.8 or newer, because its tasks are Python packages.
GO        ?= go
BIN       := bin/valence
export CGO_ENABLED = 0

.PHONY: build quickstart test race lint bench clean

build: ## compile the command and the skill plugins
	$(GO) build -trimpath -o $(BIN) ./cmd/valence
	$(BIN) plugin build -q

quickstart: build ## train all five skills jointly and print what improved
	$(BIN) doctor -q
	$(BIN) train -c examples/quickstart/run.toml --resume
	$(BIN) report runs/quickstart

test: build ## everything CI checks
	$(GO) vet ./...
	$(GO) test ./...
	./scripts/race

lint:
	$(GO) vet ./...
	@test -z "$$(gofmt -l .)" || { gofmt -l .; echo 'run: gofmt -w .'; exit 1; }
	$(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.0 ./...

bench: build ## the figures of the documentation, side by side
	./bench/run

clean:
	rm -rf bin .cache

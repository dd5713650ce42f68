# The two that do everything: make demo, make test. All need Go; what else one needs it says.
SHELL := bash
GO ?= go

# All is compiled as the program and the daemons are, so that a package is compiled once for all. Only the race
# detector and Vale need a C compiler.
export GOFLAGS := $(strip -trimpath $(filter-out -trimpath,$(GOFLAGS)))
export CGO_ENABLED = 0
CRDGEN = $(GO) tool -modfile=tools/go.mod controller-gen
VALE = $(GO) tool -modfile=tools/go.mod vale
LINT = $(GO) tool -modfile=tools/lint/go.mod
TEMPL = $(GO) tool -modfile=tools/templ/go.mod templ

# An amount in a CRD has the pattern and the length of api/quantity.go (test/arch: TestAmountsOfCRDs). The
# pattern of controller-gen allows exponents that take hours to read. A value in a map of texts has a length,
# which no marker gives it: without one, an API server refuses rules that look at its characters.
SHORT_VALUES = sed -i -e '/additionalProperties:$$/{n;s/^\( *\)type: string$$/\1maxLength: 316\n&/}' \
  -e 's/(\[eE\](\\+|-)?((\[0-9\]+(\\.\[0-9\]\*)?)|(\\.\[0-9\]+)))/([eE](\\+|-)?[0-9]{1,2})/' \
  -e 's/^\( *\)pattern: .*\[KMGTPE\]i.*/\1maxLength: 32\n&/'

.DEFAULT_GOAL := help
.PHONY: help
help: ## Show this help
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-15s %s\n", $$1, $$2}'

.PHONY: build
build: bin/bourse ## Build bin/bourse
.PHONY: bin/bourse
bin/bourse:
	@[ -x bin/bourse ] || echo "compiling bourse; the first time takes about two minutes on two cores ..." >&2
	@$(GO) build -o bin/bourse ./cmd/bourse

# The Go release of tools/release, so that a commit gives the same bytes everywhere.
RELEASE = GOTOOLCHAIN=$$(awk '/^toolchain/ {print $$2}' tools/release/go.mod) $(GO) run -C tools/release . \
  -source=$(CURDIR) -out=$(CURDIR)/dist $(if $(DEV),-dev) $(if $(PLATFORMS),-platforms=$(PLATFORMS))
.PHONY: images cli
images: ## Make images in dist. REGISTRY= pushes, DEV=1 allows changes, PLATFORMS=linux/amd64 makes one
	@$(RELEASE) $(if $(REGISTRY),-registry=$(REGISTRY)) images
cli: ## Make archives for Linux, macOS and Windows in dist, with checksums. Also DEV=1, PLATFORMS=
	@$(RELEASE) cli

.PHONY: demo
demo: bin/bourse ## Run a federation of six simulated clusters; Ctrl-C ends it
	@PATH="$(CURDIR)/bin:$$PATH" bin/bourse demo $(if $(STILL),--still)

.PHONY: daemons
daemons: ## Build the real Kubernetes daemons for lab and tests into a cached folder (once)
	@$(GO) run ./test/lab/cmd/lab build

.PHONY: lab
lab: bin/bourse ## Run three real clusters, a broker and agents; Ctrl-C ends it. Also REAL=1, STORAGE=1 or NETWORK=1
	@$(GO) run ./test/lab/cmd/lab $(if $(REAL),--real) $(if $(STORAGE),--storage) $(if $(NETWORK),--network)

.PHONY: test
test: ## Run every test, also those on real API servers, and print the time of each suite
	@test/run

# The suites that test/suites lists. TESTFLAGS are added to those of go test.
.PHONY: test-race test-plain test-clusters test-network test-robustness test-ui test-images
test-race: ## ... those beside the code where goroutines share memory, with the race detector if there is a C compiler
	@echo "== tests beside the code where goroutines share memory, with the race detector" >&2
	@GORACE=atexit_sleep_ms=0 $(RACETEST) -p 4 -timeout 20m $(OF_race)
test-plain: ## ... those beside the code that the detector makes slow and cannot find fault with
	@echo "== the other tests beside the code, without the race detector" >&2
	@$(GOTEST) -timeout 20m $(OF_plain) & pure=$$!; \
	$(GOTEST) -timeout 20m -run '^($(LEFT_OUT))$$' $(sort $(dir $(UNRACED))); others=$$?; \
	wait $$pure && exit $$others
test-clusters: ## ... those on real API servers, and with the real Liqo on three federations
	@echo "== tests on real API servers, and with the real Liqo on three federations side by side" >&2
	@$(GOTEST) -p 2 -parallel 3 -timeout 60m $(OF_clusters)
test-network: ## ... those of packets, between clusters in an emulated machine
	@echo "== packets between two clusters, by Liqo's real gateways" >&2
	@$(GOTEST) -timeout 20m $(OF_network)
test-robustness: ## ... those of the real binary, one package after the other because they measure
	@echo "== tests of the real binary" >&2
	@$(GOTEST) -p 1 -timeout 20m $(OF_robustness)
test-ui: ## ... those of the web UI, in Debian's Chromium
	@echo "== the web UI in a browser" >&2
	@$(GOTEST) -timeout 20m $(OF_ui)
test-images: ## ... those of images and archives for laptops: two builds give the same bytes
	@echo "== images and archives for laptops, each built twice" >&2
	@cd tools/release && $(GOTEST) -count=1 -timeout 20m .
# Without DWARF a program is linked in two thirds of the time.
GOTEST = $(GO) test -vet=off -ldflags=-w $(TESTFLAGS)

# The packages of each suite. Each package with tests is in one of them (test/arch: TestEachPackageIsInASuite).
OF_race = $(addprefix ./,$(shell grep '^[a-z]' test/raced/packages))
OF_plain = $(filter-out $(OF_race),$(patsubst $(MODULE)/%,./%,$(shell $(GO) list $(BESIDE))))
OF_clusters = ./test/liqo ./test/e2e ./test/policies ./test/charts ./test/lab/...
OF_network = ./test/network
OF_robustness = ./test/robustness/...
OF_ui = ./test/ui
BESIDE = ./api/... ./client/... ./cmd/... ./internal/... ./test/arch/...
MODULE = $(shell $(GO) list -m)
packages-of-images: ;
packages-of-%:
	@$(GO) list $(OF_$*)
UNRACED = $(addprefix ./,$(shell grep -rl --include='*_test.go' 'raced\.Skip' client internal))
LEFT_OUT = $(shell awk -F '[^A-Za-z0-9]' '/^func / {name = $$2} /raced\.Skip/ {print name}' $(UNRACED) | sort -u | paste -sd '|')
RACETEST = $(if $(GCC),CGO_ENABLED=1) $(GOTEST) $(if $(GCC),-race)
GCC = $(shell command -v gcc)

.PHONY: soak
soak: daemons ## Run each suite ten times, and report what failed: hours; the next call continues
	@test/soak

.PHONY: quick
quick: ## Build, vet, and run the fast tests beside the code and the policies: seconds if nothing changed
	$(GO) build ./...
	$(GO) vet ./...
	@$(GOTEST) ./test/policies & policies=$$!; \
	$(GOTEST) -short $(BESIDE); beside=$$?; \
	wait $$policies && exit $$beside

# The last commit whose brokers and agents do not know what Liqos exchange.
FORMER ?= 3a995bf0

.PHONY: test-more
test-more: ## Run what make test thins: each process is killed at each step, the detector everywhere, a former release, Helm 4, each platform
	ALL_PAIRS=1 $(GOTEST) -parallel 2 -timeout 120m -run '^Test((AHubIs)?Killed|AReplicaTakesOver)AtEachStep$$' ./test/liqo
	FORMER=$(FORMER) $(GOTEST) -timeout 30m -run '^TestAFormerRelease$$' ./test/liqo
	$(RACETEST) -timeout 60m $(OF_plain)
	HELM=4 $(GOTEST) -timeout 60m ./test/charts
	cd tools/release && ALL_PLATFORMS=1 $(GOTEST) -count=1 -timeout 120m .
	GOOS=darwin GOARCH=arm64 $(GO) vet ./api/... ./client/... ./cmd/... ./internal/...
	GOOS=windows $(GO) vet ./api/... ./client/... ./cmd/... ./internal/...

.PHONY: bench
bench: ## Measure the figures of docs/performance.md, into a table and bench.json
	$(GO) run ./test/bench

.PHONY: generate
generate: ## Generate what is generated: deep copies, CRDs, pages, OpenAPI, references, the fields of Liqo that Bourse uses
	$(CRDGEN) object paths=./api crd output:crd:dir=config/crd
	$(TEMPL) generate -path internal/ui -log-level warn
	@$(SHORT_VALUES) config/crd/bourse.dev_*.yaml
	$(GO) test ./internal/liqo/posture -run TestAmountsAreThoseOfTheCRDs -update >/dev/null
	@cp config/liqo/policies.yaml internal/liqo/posture/policies.yaml
	$(GO) test ./internal/liqo/posture -run TestPoliciesAreAppendOnly -update >/dev/null
	$(GO) test ./test/charts -run 'TestGenerated' -update >/dev/null
	$(GO) test ./internal/server -run 'TestOpenAPI|TestTableOfQuestions' -update >/dev/null
	$(GO) test ./internal/cli -run TestReference -update >/dev/null
	$(GO) test ./internal/health -update >/dev/null
	$(GO) test ./test/arch -run TestLiqosFields -update >/dev/null

.PHONY: check
check: ## Fail when something generated is stale (OpenAPI and the reference have tests), or a linter finds something
	@echo "== generated files, linters, prose" >&2
	@tmp=$$(mktemp -d) && trap 'rm -rf '$$tmp EXIT && \
	$(CRDGEN) object output:object:dir=$$tmp crd output:crd:dir=$$tmp paths=./api && \
	$(SHORT_VALUES) $$tmp/*.yaml && \
	for f in $$tmp/*; do \
	  case $$f in *.yaml) have=config/crd;; *) have=api;; esac; \
	  cmp $$f $$have/$$(basename $$f) || { echo "generated files are stale: run make generate and commit"; exit 1; }; \
	done
	@cmp config/liqo/policies.yaml internal/liqo/posture/policies.yaml || { echo "the embedded policies are stale: run make generate and commit"; exit 1; }
	@tmp=$$(mktemp -d) && trap 'rm -rf '$$tmp EXIT && cp -r internal/ui $$tmp && \
	$(TEMPL) generate -path $$tmp/ui -log-level error && diff -rq internal/ui $$tmp/ui || \
	{ echo "the pages are stale: run make generate and commit"; exit 1; }
	@$(GO) test -short ./test/charts -run 'TestGenerated' || { echo "the charts' files are stale: run make generate and commit"; exit 1; }
	@$(MAKE) --no-print-directory lint
	@test -z "$$(gofmt -l api client cmd internal test tools)" || { echo "not gofmt-ed:"; gofmt -l api client cmd internal test tools; exit 1; }
	@$(MAKE) --no-print-directory prose

.PHONY: lint
lint: ## Run go vet, staticcheck (staticcheck.conf) and errcheck. Those of errors leave out tests, and what nobody checks
	@$(GO) vet ./... && $(GO) vet -C tools/release .
	@$(LINT) staticcheck ./...
	@found=$$($(LINT) errcheck -ignoretests ./api/... ./client/... ./cmd/... ./internal/...); \
	[ $$? -le 1 ] && ! grep -vE '^$$|$(UNCHECKED)' <<<"$$found"
# Calls whose error nobody needs: what is closed was read or is given up, and nobody reads where a command prints to.
UNCHECKED = (Close|Flush|[pP]rint(f|ln)?|os\.Remove(All)?|os\.(Uns|S)etenv)\(

.PHONY: prose
prose: ## Check the words of the docs: the rules are in .vale/styles/Bourse. Needs a C compiler
	@if command -v gcc >/dev/null; then CGO_ENABLED=1 $(VALE) --output=line .; else echo "the words are not checked: vale needs a C compiler" >&2; fi

.PHONY: screenshots
screenshots: bin/bourse ## Take the pictures of docs/img from the demo. Needs Chromium
	@test/ui/screenshots/take

.PHONY: lines
lines: ## Count lines and tokens of production Go, by group of packages
	@git ls-files api client cmd internal | $(GO) run ./test/lines

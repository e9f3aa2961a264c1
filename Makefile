# `make` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# Outside the checkout, so that every checkout shares one build of aws-sdk-ec2 (minutes of one core and gigabytes of memory).
export CARGO_TARGET_DIR ?= $(HOME)/.cache/whittle-target
export WHITTLE_TOOLS ?= $(HOME)/.cache/whittle-tools
export PATH := $(WHITTLE_TOOLS)/bin:$(PATH)
export SAM_CLI_TELEMETRY := 0
# Where the end-to-end tests find the functions that `sam build` made.
export WHITTLE_SAM_BUILD := $(CARGO_TARGET_DIR)/sam-build

HOST_TRIPLE := $(shell rustc -vV | sed -n 's/^host: //p')
RELAY_VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
HOST_ARCHITECTURE := $(if $(filter aarch64%,$(HOST_TRIPLE)),arm64,x86_64)

# The command line is tested as it is released, with AWS.
WITH_AWS := --features whittle/aws

# cargo-lambda names the target even when it is the host's, and cargo keeps such builds apart. Everything that is tested
# names it too, so that tests and functions share one build.
check unit test functions e2e world race invoke bench bench-cost bench-scale load soak: export CARGO_BUILD_TARGET := $(HOST_TRIPLE)

.PHONY: help demo test check check-packaging docs unit functions e2e control-plane world race sim bench bench-cost bench-scale load soak bench-scheduling bench-disruption bench-inner-loops fuzz coverage mutants crds package package-lane relay-image release release-cli release-functions release-relay release-sbom release-assemble release-publish release-dry-run lint-workflows invoke sbom advisories rust-target package-tools tools clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Watch pending pods become nodes in a simulated account and cluster (KEEP=1 leaves it up)
	@cargo build --locked -p whittle
	@cargo run --quiet --locked -p whittle -- demo $(if $(KEEP),--keep)

# The last lines are nextest's summary. Cargo, nextest and the tests themselves fail on whatever is missing; none skips. Only `make e2e`
# works with a cluster that the environment names.
test: tools check functions ## Install what is needed, then run everything
	cargo test --locked --workspace --doc --quiet
	env -u KUBECONFIG -u KUBEBUILDER_ASSETS cargo nextest run --locked --workspace $(WITH_AWS)

check: tools ## Formatting, lints, dependency rules, template
	cargo fmt --all --check
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --all-targets $(WITH_AWS) -- -D warnings
	cargo deny --locked check bans licenses sources
	for apart in bench fuzz mutants; do cargo metadata --locked --format-version 1 --manifest-path $$apart/Cargo.toml > /dev/null; done
	cargo clippy --locked -p scheduling --features inner-loops -- -D warnings
	AWS_DEFAULT_REGION=us-east-1 sam validate --lint --template sam-template.yaml
	infra/tools/check-templates --self-test
	infra/tools/check-templates
	$(MAKE) --no-print-directory check-packaging
	infra/tools/docs $(BOOK)
	@if command -v go > /dev/null; then $(MAKE) --no-print-directory lint-workflows; else echo "go is missing: .github/workflows are not linted"; fi

# From the module proxy of Go, which machines of CI have.
ACTIONLINT ?= v1.7.12
lint-workflows: ## Lint the workflows of CI with actionlint (needs Go)
	@command -v go > /dev/null || { echo "make lint-workflows: go is missing: install Go (https://go.dev/doc/install)" >&2; exit 2; }
	@[[ -x $(WHITTLE_TOOLS)/bin/actionlint-$(ACTIONLINT) ]] || { GOBIN=$(WHITTLE_TOOLS)/go go install github.com/rhysd/actionlint/cmd/actionlint@$(ACTIONLINT) \
		&& mkdir -p $(WHITTLE_TOOLS)/bin && mv $(WHITTLE_TOOLS)/go/actionlint $(WHITTLE_TOOLS)/bin/actionlint-$(ACTIONLINT); }
	$(WHITTLE_TOOLS)/bin/actionlint-$(ACTIONLINT) -shellcheck "$$(command -v shellcheck)" .github/workflows/*.yml

# The tests build artifacts of made-up binaries. Nothing is compiled.
check-packaging: tools ## Test tools of packaging, chart, release artifacts, workflows and Terraform modules
	infra/tools/check-packaging

# WHITTLE_REPOSITORY_URL names the page of the repository that links to its other files lead to.
BOOK ?= $(CARGO_TARGET_DIR)/book
docs: tools ## Build the documentation site and check its links (BOOK=folder)
	infra/tools/docs $(BOOK)

unit: tools ## The pure crates only: seconds
	cargo nextest run --locked

# A debug build, with the features the tests are built with, so that nothing is compiled twice: cargo itself first,
# because its errors are easier to read than SAM's account of them.
functions: tools
	cargo nextest run --locked --workspace $(WITH_AWS) --no-run
	SAM_BUILD_MODE=debug CARGO_LAMBDA_COMPILER=cargo \
	CARGO_LAMBDA_COMPILER_EXTRA_ARGS="--locked --workspace $(WITH_AWS) --lib --bins --tests --examples" \
	sam build --template sam-template.yaml --build-dir $(WHITTLE_SAM_BUILD) \
		--parameter-overrides Architecture=$(HOST_ARCHITECTURE)

e2e: functions ## Deploy the stack into a local AWS and watch it work (KUBEBUILDER_ASSETS=folder or KUBECONFIG=file: with a real API server)
	cargo nextest run --locked --workspace $(WITH_AWS) -E 'binary(e2e) | binary(deployment) | binary(bad_input)'

# From the modules of Kubernetes and etcd, by Go alone; some minutes and gigabytes the first time.
KUBERNETES ?= 1.37.2
control-plane: ## Build a real control plane of KUBERNETES=1.37.2 for KUBEBUILDER_ASSETS
	infra/tools/control-plane $(KUBERNETES) $(CARGO_TARGET_DIR)/control-plane-$(KUBERNETES)

# A real control plane, unless SIMULATED=1. Whatever is pointed at it finds it by the lines that it prints.
WORLD ?=
world: functions $(if $(SIMULATED),,control-plane) ## Keep the deployed stack up with a cluster, for any client or test suite, until interrupted (SIMULATED=1, WORLD="--sweep-every 60 --no-relay")
	cargo build --locked --workspace $(WITH_AWS) --bins
	exec env -u KUBECONFIG $(if $(SIMULATED),-u KUBEBUILDER_ASSETS,KUBEBUILDER_ASSETS=$(CARGO_TARGET_DIR)/control-plane-$(KUBERNETES)) \
		$(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/world $(WORLD)

# The processes of functions and the relay are those whose CPU time counts.
RACE ?= --pods 1 500
race: functions control-plane ## Time how nodes come for pending pods and go with them, on a cluster of its own (RACE="--pods 1 500 5000 --after 30s")
	cargo build --locked --workspace $(WITH_AWS) --bins
	env -u KUBECONFIG KUBEBUILDER_ASSETS=$(CARGO_TARGET_DIR)/control-plane-$(KUBERNETES) infra/tools/race \
		--world $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/world \
		--processes '/(relay|provisioner|lifecycle|disruption|terminator|housekeeper|interruption)( |$$)' $(RACE)

# Optimized, and of the simulation alone: it links no AWS SDK. SIM_PROFILE=dev where it is built for tests anyway.
SIM_PROFILE ?= sim
sim: ## Run seeds of the simulation (SEEDS=1000 SIM_FIRST=0, or SIM_SEED=… for one; SIM_ALL=true goes on after a failure)
	SIM_COMMIT=$$(git rev-parse --short HEAD) cargo run --quiet --locked --profile $(SIM_PROFILE) -p simulation

# The turns' own costs are measured without the SDK, the relay's memory in the build that the tests share.
bench: tools ## Print the numbers: zip sizes and cold start; turns and relay with 500 nodes and 5,000 pods; the catalog
	sam build --template sam-template.yaml --build-dir $(WHITTLE_SAM_BUILD)-release \
		--parameter-overrides Architecture=$(HOST_ARCHITECTURE)
	infra/tools/bench $(WHITTLE_SAM_BUILD)-release
	cargo bench --quiet --locked -p whittle --bench turns -- 500 5000
	cargo bench --quiet --locked -p whittle --bench catalog -- $(abspath $(or $(wildcard $(CONFORMANCE)/aws),tests/conformance/aws))
	cargo bench --quiet --locked --workspace --profile dev --bench memory -- 500 5000
	cargo bench --quiet --locked --workspace --profile dev --bench lifecycle
	cargo bench --quiet --locked --workspace --profile dev --bench interruption

# How long turns compute is measured without the SDK and optimized; what they ask of the ledger, in the build that the tests share.
bench-cost: tools ## Print the bill: what a stack costs by the month, alone, with a cluster at rest, with 1,000 nodes (prices: tests/benches/cost/prices.yaml)
	cargo bench --quiet --locked -p whittle --bench turns -- 10 100 > $(CARGO_TARGET_DIR)/turns-few.txt
	cargo bench --quiet --locked -p whittle --bench turns -- 1000 10000 > $(CARGO_TARGET_DIR)/turns-many.txt
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench cost -- $(CARGO_TARGET_DIR)/turns-few.txt $(CARGO_TARGET_DIR)/turns-many.txt

# The cold start is of the functions as they are deployed, what the relay takes of one as it is released.
bench-scale: tools ## Print the numbers: what turns and the relay cost with 500, 2,000 and 5,000 nodes, and which goals were missed
	sam build --template sam-template.yaml --build-dir $(WHITTLE_SAM_BUILD)-release \
		--parameter-overrides Architecture=$(HOST_ARCHITECTURE)
	infra/tools/bench $(WHITTLE_SAM_BUILD)-release > $(CARGO_TARGET_DIR)/cold-start.txt
	cargo bench --quiet --locked -p relay --bench memory -- 5000 50000 > $(CARGO_TARGET_DIR)/relay.txt
	cargo bench --quiet --locked -p whittle --bench scale -- $(CARGO_TARGET_DIR)/cold-start.txt $(CARGO_TARGET_DIR)/relay.txt

# The first over a table in memory that refuses what DynamoDB refuses, the others over a local DynamoDB; in the build that the tests share.
CLUSTERS ?= 200
load: tools ## Print the numbers: 1,000 deletions at once in each lane, a sweep of CLUSTERS=200 of which a tenth hang, and how long turns take when all wake together
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench many -- $(CLUSTERS)
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench herd -- $(CLUSTERS)

SOAK ?= 24
soak: tools ## Print the numbers: what SOAK=24 hours of virtual time leave behind in the table, the queues and memory
	cargo bench --quiet --locked --workspace $(WITH_AWS) --profile dev --bench soak -- $(SOAK)

# The recorded decisions of Karpenter, which are no part of this repository.
CONFORMANCE ?= ../shared/conformance
# Optimized, and of the command line alone: it links no AWS SDK.
bench-scheduling: ## Print the numbers: CPU time and memory of planning, against Karpenter's or another build's (CONFORMANCE=… BASELINE=…)
	@[[ -e $(CONFORMANCE)/provisioning-bench.jsonl.gz ]] || { echo "make bench-scheduling: $(CONFORMANCE)/provisioning-bench.jsonl.gz is missing: set CONFORMANCE to the folder of the recorded decisions" >&2; exit 2; }
	cargo build --profile cli --locked -p whittle
	infra/tools/bench-scheduling $(if $(BASELINE),--baseline $(BASELINE)) $(CARGO_TARGET_DIR)/cli/whittle $(CONFORMANCE)

bench-disruption: ## Print the numbers: what looks for disruptions cost and where they lead, against Karpenter's or another build's (CONFORMANCE=… BASELINE=…)
	@[[ -e $(CONFORMANCE)/disruption-fleet.jsonl.gz ]] || { echo "make bench-disruption: $(CONFORMANCE)/disruption-fleet.jsonl.gz is missing: set CONFORMANCE to the folder of the recorded decisions" >&2; exit 2; }
	cargo build --profile cli --locked -p whittle
	infra/tools/bench-disruption $(if $(BASELINE),--baseline $(BASELINE)) $(CARGO_TARGET_DIR)/cli/whittle $(CONFORMANCE)

# A workspace of its own, which shares nothing but the directory it is built in.
bench-inner-loops: ## Print the numbers: the search's inner loops one by one, and what changed since the last time
	cargo bench --locked --manifest-path bench/Cargo.toml

crds: ## Generate infra/chart/charts/crds/templates from the API types
	cargo run --quiet --locked -p api --example crds -- infra/chart/charts/crds/templates

# ARCHITECTURE is the functions' processor; another one than this machine's also needs `rustup target add`.
ARCHITECTURE ?= arm64
package: package-tools ## Build the functions for deployment (ARCHITECTURE=arm64|x86_64), and write samconfig.toml; then `sam deploy`
	sam build --template sam-template.yaml --parameter-overrides Architecture=$(ARCHITECTURE)
	infra/tools/sam-config $(ARCHITECTURE)

# With --template-file, SAM deploys the folders that the template names: sources, if the template is not the one that was built.
package-lane: package-tools ## Build the functions of a further VPC into .aws-sam/lane (ARCHITECTURE=…, the stack's); docs/deployment.md deploys them
	sam build --template infra/vpc-lane.yaml --build-dir .aws-sam/lane --parameter-overrides Architecture=$(ARCHITECTURE)

# Without a container engine. The C library is linked in: an image needs no other file but certificates.
IMAGE ?= $(CARGO_TARGET_DIR)/relay-image.tar
relay-image: ## Write the relay's image as an OCI archive (IMAGE=…), for `podman load`, `docker load`, `skopeo copy` or `crane push`
	RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --release --package relay --target $(HOST_TRIPLE)
	infra/tools/relay-image $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/release/relay $(IMAGE) --name whittle/relay:$(RELAY_VERSION)

# .github/workflows/release.yml builds a release from a tag: several machines run some of these targets, and one machine assembles and
# publishes all artifacts. RELEASE_REPOSITORY is owner/name on GitHub, RELEASE_BUCKET the name of the buckets without
# -<Region>, RELEASE_REGIONS the Regions that have one; docs/releases.md says what each artifact is.
DIST ?= $(CARGO_TARGET_DIR)/dist
RELEASE := infra/release/release --dist $(DIST)
release-cli: package-tools ## Build the archive of whittle for one system (TARGET=linux-x86_64|linux-arm64|macos-x86_64|macos-arm64|windows-x86_64, the machine's own)
	$(RELEASE) cli $(if $(TARGET),--target $(TARGET))

release-functions: package-tools ## Build the functions' zips of a release (ARCHITECTURE=arm64|x86_64)
	$(RELEASE) functions --architecture $(ARCHITECTURE)

release-relay: ## Build the relay's image of a release, for this machine's architecture
	$(RELEASE) relay

release-sbom: ## Write the bills of materials of a release
	$(MAKE) --no-print-directory sbom SBOM=$(DIST)/sbom

release-assemble: ## Complete a release in DIST: image index, chart, templates, manifests, checksums
	$(RELEASE) assemble

release-publish: ## Sign and upload an assembled release (cosign, skopeo, helm, aws and gh, with their credentials)
	$(RELEASE) publish

release: ## Assemble and publish the artifacts in DIST
	$(MAKE) --no-print-directory release-assemble
	$(MAKE) --no-print-directory release-publish

# BINARIES is a folder of programs that are built already; without it, this compiles for a long time.
release-dry-run: package-tools ## Build every artifact that this machine can, list the others with the reason, and print the commands that would publish (BINARIES=…)
	rm -rf $(DIST)
	@if command -v cargo-cyclonedx > /dev/null && [[ -z "$(BINARIES)" ]]; then $(MAKE) --no-print-directory release-sbom; fi
	$(RELEASE) dry-run $(if $(BINARIES),--binaries $(BINARIES))

# The template names what lives in functions/provisioner ProvisionerFunction.
FUNCTION ?= provisioner
LOGICAL_ID = $(shell printf '%s' '$(FUNCTION)' | sed 's/^./\U&/')Function
invoke: tools ## Run one event through a function (FUNCTION=… EVENT=events/….json ENV_VARS=events/env.json)
	@[[ -n "$(EVENT)" ]] || { echo "usage: make invoke FUNCTION=provisioner EVENT=events/provisioner/wake.json [ENV_VARS=events/env.json]" >&2; exit 2; }
	@cargo build --quiet --locked -p $(FUNCTION)
	@infra/tools/invoke $(LOGICAL_ID) $(CARGO_TARGET_DIR)/$(HOST_TRIPLE)/debug/$(FUNCTION) $(EVENT) \
		$(if $(ENV_VARS),--env-vars $(ENV_VARS))

# With sanitizers, which a stable toolchain has behind RUSTC_BOOTSTRAP. What is found on the way is kept beside the builds, so that the
# next run goes on from there; `cargo fuzz cmin` makes it small enough for fuzz/corpus, which `make test` replays.
FUZZ := events lists quantities user-data views plan cron parameters command-line
HOURS ?= 1
fuzz: ## Feed programs with what nobody would write, HOURS=1 for all targets together (FUZZ="events lists …")
	@command -v cargo-fuzz > /dev/null || cargo install --quiet --locked --root $(WHITTLE_TOOLS) cargo-fuzz@0.13.1
	@declare -A features=([command-line]="--features command-line"); for target in $(FUZZ); do \
		mkdir -p $(CARGO_TARGET_DIR)/fuzz-corpus/$$target; \
		RUSTC_BOOTSTRAP=1 cargo fuzz run --fuzz-dir fuzz --target-dir $(CARGO_TARGET_DIR)/fuzz $${features[$$target]-} $$target \
			$(CARGO_TARGET_DIR)/fuzz-corpus/$$target fuzz/corpus/$$target -- \
			-max_total_time=$$(awk 'BEGIN { print int($(HOURS) * 3600 / $(words $(FUZZ))) }') -timeout=60 -rss_limit_mb=2048; \
	done

# Debian's tools read what rustc 1.95 writes if they are of the same LLVM. What runs the pure crates knows no SDK, and is built apart.
# `executor` and `turns` are not pure: they are measured, but not judged. Stories told once for every point they can die at take too long when counted.
SWIFT := not (binary(crash) or test(crash) or test(deleted_clusters))
LLVM := /usr/lib/llvm-22/bin
PURE := model api scheduling planner plancheck aws-rules view
STEPS := executor turns
COVERAGE := $(CARGO_TARGET_DIR)/coverage
LEAST ?= 90
coverage: tools ## Print which part of the pure crates' lines the tests run (an error below LEAST=90 %)
	@[[ -x $(LLVM)/llvm-cov ]] || { echo "make coverage: $(LLVM)/llvm-cov is missing: apt-get install llvm-22" >&2; exit 2; }
	@rm -rf $(COVERAGE)/profiles
	@export CARGO_TARGET_DIR=$(COVERAGE) CARGO_BUILD_TARGET=$(HOST_TRIPLE) RUSTFLAGS="-C instrument-coverage" LLVM_PROFILE_FILE=$(COVERAGE)/profiles/%8m.profraw; \
	tests=($(addprefix -p ,$(PURE) $(STEPS) scenarios stories simulation)); \
	cargo nextest run --locked "$${tests[@]}" --profile coverage -E '$(SWIFT)'; \
	cargo nextest list --locked "$${tests[@]}" --list-type binaries-only --message-format json > $(COVERAGE)/tests.json
	@$(LLVM)/llvm-profdata merge --sparse $(COVERAGE)/profiles/*.profraw -o $(COVERAGE)/merged.profdata
	@$(LLVM)/llvm-cov export --format lcov --instr-profile $(COVERAGE)/merged.profdata \
		$$(jq -r '.["rust-binaries"][]["binary-path"] | "--object " + .' $(COVERAGE)/tests.json) > $(COVERAGE)/lines.lcov
	@infra/tools/coverage $(LEAST) $(COVERAGE)/missed.txt $(PURE) -- $(STEPS) < $(COVERAGE)/lines.lcov

# What is known of each mutant is kept beside the builds. The program only waits for cargo: it is built without optimization.
mutants: tools ## Look which changes of the code no test notices (SHARD=k/n, FILES=… from the root on; without SHARD, what is known so far)
	@command -v cargo-mutants > /dev/null || cargo install --quiet --locked --debug --root $(WHITTLE_TOOLS) cargo-mutants@27.1.0
	@CARGO_TARGET_DIR=$(CARGO_TARGET_DIR)/mutants/build infra/tools/mutants $(CARGO_TARGET_DIR)/mutants $(SHARD) $(FILES)

# The generator comes from crates.io and is built when it is first needed.
SBOM ?= $(CARGO_TARGET_DIR)/sbom
SHIPPED := cli infra/relay $(wildcard functions/*)
sbom: ## Write what each program that is shipped is made of, as CycloneDX (SBOM=folder), and count it
	@command -v cargo-cyclonedx > /dev/null || cargo install --quiet --locked --root $(WHITTLE_TOOLS) cargo-cyclonedx@0.5.9
	@mkdir -p $(SBOM)
	@cargo cyclonedx --quiet --format json --features aws --override-filename whittle.sbom
	@for shipped in $(SHIPPED); do mv $$shipped/whittle.sbom.json $(SBOM)/$$(basename $$shipped).json; done
	@git ls-files --others '*whittle.sbom.json' | xargs --no-run-if-empty rm
	@for file in $(SBOM)/*.json; do printf '%5d components  %s\n' $$(jq '.components | length' $$file) $$file; done

# No database of advisories comes with this repository: ADVISORY_DB names a clone of rustsec/advisory-db.
advisories: tools ## Look for known weaknesses of dependencies (ADVISORY_DB=folder)
	@infra/tools/advisories "$(ADVISORY_DB)"

TRIPLE ?= $(if $(filter arm64,$(ARCHITECTURE)),aarch64,x86_64)-unknown-linux-gnu
rust-target: ## Install Rust's target of the functions (ARCHITECTURE=…), or another (TRIPLE=…)
	rustup target add $(TRIPLE)

package-tools: ## Install what packaging needs into WHITTLE_TOOLS (Linux and macOS, x86_64 and arm64)
	@infra/tools/install packaging

tools: ## Install all pinned tools, of tests and of packaging, into WHITTLE_TOOLS (Linux on x86_64)
	@infra/tools/install

clean: ## Remove what was built (the tools stay)
	rm -rf .aws-sam $(WHITTLE_SAM_BUILD) $(WHITTLE_SAM_BUILD)-release
	cargo clean
